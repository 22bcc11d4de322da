"""Stores and policies go to a hub and come back whole; the hub here is a small server on the loopback interface."""

import base64
import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import pytest

pytest.importorskip("huggingface_hub")


from egorecovery.cli.main import main
from egorecovery.episodes import EpisodeStore
from egorecovery.evaluation import ResultFile, Subject
from egorecovery.policy.checkpoint_card import policy_hash
from egorecovery.sharing import hub
from egorecovery.storage.checksummed_json import with_checksum
from filmed_runs import rollout
from tiny_checkpoint import save_tiny

REVISION = "c0ffee" + 34 * "0"


class FakeHub(BaseHTTPRequestHandler):
    """As much of a hub as a push of small files and a pull need."""

    repositories: dict[tuple[str, str], dict[str, bytes]]
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def _answer(self, code, body=b"", **headers):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        for name, value in {"Content-Length": len(body), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _missing(self):
        self._answer(404, {"error": "Repository not found"}, X_Error_Code="RepoNotFound")

    def _found(self, kind, repository):
        return self.repositories.get((kind, repository))

    def do_POST(self):
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/api/repos/create":
            asked = json.loads(sent)
            owner = f"{asked['organization']}/" if asked.get("organization") else ""
            kind, name = asked.get("type") or "model", owner + asked["name"]
            self.repositories.setdefault((kind, name), {})
            self._answer(200, {"url": f"http://{self.headers['Host']}/{kind}s/{name}"})
            return
        if self.path == "/api/validate-yaml":
            self._answer(200, {"errors": [], "warnings": []})
            return
        kind, repository, action = re.match(r"/api/(model|dataset)s/(\w+/\w+)/(\w+)/", self.path).groups()
        there = self._found(kind, repository)
        if action == "preupload":
            files = json.loads(sent)["files"]
            self._answer(
                200,
                {"files": [{"path": one["path"], "uploadMode": "regular", "shouldIgnore": False} for one in files]},
            )
        elif action == "commit":
            for line in map(json.loads, sent.splitlines()):
                if line["key"] == "file":
                    there[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            where = f"http://{self.headers['Host']}/{'datasets/' if kind == 'dataset' else ''}{repository}"
            self._answer(200, {"commitUrl": f"{where}/commit/{REVISION}", "commitOid": REVISION})

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path = unquote(self.path.partition("?")[0])
        about = re.match(r"/api/(model|dataset)s/(\w+/\w+?)(?:/(tree|revision)/(\w+))?$", path)
        if about:
            kind, repository, what, _ = about.groups()
            there = self._found(kind, repository)
            if there is None:
                return self._missing()
            if what == "tree":
                listed = [
                    {"type": "file", "path": name, "size": len(body), "oid": hashlib.sha1(body).hexdigest()}  # noqa: S324
                    for name, body in there.items()
                ]
                return self._answer(200, listed)
            siblings = [{"rfilename": name} for name in there]
            return self._answer(200, {"id": repository, "sha": REVISION, "siblings": siblings})
        file = re.match(r"/(datasets/)?(\w+/\w+)/resolve/\w+/(.+)", path)
        if file is None:
            return self._missing()
        there = self._found("dataset" if file[1] else "model", file[2])
        if there is None or file[3] not in there:
            return self._missing()
        body = there[file[3]]
        etag = hashlib.sha1(body).hexdigest()  # noqa: S324 - a name, no protection
        return self._answer(200, body, ETag=f'"{etag}"', X_Repo_Commit=REVISION)


@pytest.fixture
def repositories(monkeypatch):
    """What the hub holds: {(kind, id): {file: bytes}}."""
    held: dict[tuple[str, str], dict[str, bytes]] = {}
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Hub", (FakeHub,), {"repositories": held}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(hub, "HfApi", lambda: hub_api(endpoint, token="hf_of_a_test"))  # noqa: S106
    monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
    yield held
    server.shutdown()
    server.server_close()


hub_api = hub.HfApi


def test_a_store_is_pushed_with_a_card_and_comes_back_verified(repositories, store, tmp_path, capsys):
    assert main(["push", str(store.root), "lab/cubes"]) == 0
    assert "next: egorecovery pull lab/cubes --out COPY" in capsys.readouterr().out
    there = repositories["dataset", "lab/cubes"]
    assert "| robot recovery | 1 |" in there["README.md"].decode()
    assert not [name for name in there if "lock" in name or name.startswith(".")]
    assert main(["pull", "lab/cubes", "--out", str(tmp_path / "copy")]) == 0
    assert f"next: egorecovery inspect {tmp_path / 'copy'}" in capsys.readouterr().out
    assert main(["verify", str(tmp_path / "copy")]) == 0
    assert not list(tmp_path.glob(".copy*"))
    for path in store.root.rglob("*.json"):
        assert (tmp_path / "copy" / path.relative_to(store.root)).read_bytes() == path.read_bytes()


def test_a_run_goes_with_its_latest_checkpoint_and_facts_of_its_recipe(repositories, tmp_path, capsys):
    for step in (10, 20):
        save_tiny(tmp_path / "run", step=step)
    assert main(["push", str(tmp_path / "run"), "lab/policy"]) == 0
    there = repositories["model", "lab/policy"]
    assert {name.split("/")[1] for name in there if "/" in name} == {"step_00000020"}
    card = there["README.md"].decode()
    assert "library_name: egorecovery" in card
    assert "| steps | 20 |" in card
    assert "cube" in card
    assert main(["pull", "lab/policy", "--out", str(tmp_path / "copy")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "pulled and verified: run" in said
    assert "--client-hz: 25 for the simulated workcell, 50 (the default) for ALOHA robots" in said


def test_a_card_counts_rollouts_of_its_own_checkpoint_used_as_it_is(tmp_path, capsys):
    run = tmp_path / "run"
    own = policy_hash(save_tiny(run, step=20))
    results = ResultFile(run / "results.jsonl")
    for of, intervention, outcomes in (
        (own, {"zero_intent": False, "gate": "learned"}, ("success", "failure")),
        (own, {"zero_intent": False, "gate": "0"}, ("failure", "failure")),
        ("of an earlier step", {}, ("success", "success")),
    ):
        subject = Subject(policy="egorecovery", policy_hash=of, intervention=intervention)
        for index, outcome in enumerate(outcomes):
            results.append(rollout(index, outcome == "success", policy="", subject=subject))
    assert main(["push", str(run), "lab/policy", "--card-only"]) == 0
    card = capsys.readouterr().out
    assert "| 1/2 |" in card
    assert not [rate for rate in ("0/2", "2/2", "2/4", "3/6", "1/4") if f"| {rate} |" in card]


def test_a_card_never_sums_rollouts_of_different_protocols(tmp_path, capsys):
    run = tmp_path / "run"
    subject = Subject(policy="demo", policy_hash=policy_hash(save_tiny(run, step=20)))
    results = ResultFile(run / "results.jsonl")
    bench = {"name": "bench", "starts_seed": "comparison", "replan_steps": 35, "varied_appearance": True}
    demo = {**bench, "name": "demo", "varied_appearance": False}
    for protocol, outcomes in (
        (bench, (False, False)),
        (demo, (True, True, False)),
        ({**bench, "replan_steps": 5}, (True,)),
    ):
        for index, succeeded in enumerate(outcomes):
            results.append(rollout(index, succeeded, policy="", subject=subject, protocol=protocol))
    assert main(["push", str(run), "lab/policy", "--card-only"]) == 0
    lines = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if "| comparison |" in line]
    assert {(line[3], line[4]) for line in lines} == {
        ("bench (replan steps 35)", "0/2"),
        ("bench (replan steps 5)", "1/1"),
        ("demo", "2/3"),
    }


def test_the_card_can_be_read_before_anything_is_pushed(repositories, store, capsys):
    assert main(["push", str(store.root), "lab/cubes", "--card-only"]) == 0
    assert "# lab/cubes" in capsys.readouterr().out
    assert repositories == {}


def test_a_damaged_store_is_not_pushed(repositories, store, capsys):
    next((store.root / "episodes").rglob("jpeg/c/0")).write_bytes(b"no picture")
    assert main(["push", str(store.root), "lab/cubes"]) == 2
    assert "is damaged" in capsys.readouterr().err
    assert repositories == {}


def test_a_link_in_a_store_is_not_pushed(repositories, store, tmp_path, capsys):
    (tmp_path / "secret").write_text("of mine")
    (store.root / "labels").mkdir(exist_ok=True)
    (store.root / "labels" / "x").symlink_to(tmp_path / "secret")
    assert main(["push", str(store.root), "lab/cubes"]) == 2
    assert "x" in capsys.readouterr().err
    assert repositories == {}


def test_what_was_changed_on_the_hub_is_not_taken(repositories, store, tmp_path, capsys):
    assert main(["push", str(store.root), "lab/cubes"]) == 0
    there = repositories["dataset", "lab/cubes"]
    name = next(name for name in there if name.endswith("jpeg/c/0"))
    there[name] = bytes(len(there[name]))
    assert main(["pull", "lab/cubes", "--out", str(tmp_path / "copy")]) == 2
    assert "is damaged" in capsys.readouterr().err
    assert not (tmp_path / "copy").exists()
    assert not list(tmp_path.glob(".copy*"))


def test_only_what_belongs_to_a_store_is_pulled(repositories, store, tmp_path):
    assert main(["push", str(store.root), "lab/cubes"]) == 0
    repositories["dataset", "lab/cubes"] |= {"setup.py": b"import os", ".bashrc": b"", "episodes/.hidden": b""}
    assert main(["pull", "lab/cubes", "--out", str(tmp_path / "copy")]) == 0
    names = {path.name for path in (tmp_path / "copy").rglob("*")}
    assert not names & {"setup.py", ".bashrc", ".hidden", "README.md", ".cache"}


def test_what_another_pull_left_in_the_draft_is_no_part_of_this_one(repositories, store, tmp_path):
    assert main(["push", str(store.root), "lab/cubes"]) == 0
    left = tmp_path / ".copy.pulling" / "episodes" / "of_another" / "manifest.json"
    left.parent.mkdir(parents=True)
    left.write_text("{}")
    assert main(["pull", "lab/cubes", "--out", str(tmp_path / "copy")]) == 0
    assert EpisodeStore(tmp_path / "copy").ids() == store.ids()
    assert not (tmp_path / "copy" / "episodes" / "of_another").exists()


def test_a_name_is_no_pattern_of_others(repositories, store, tmp_path):
    assert main(["push", str(store.root), "lab/cubes"]) == 0
    repositories["dataset", "lab/cubes"] |= {"labels/*": b"", "labels/.hidden": b"x"}
    main(["pull", "lab/cubes", "--out", str(tmp_path / "copy")])
    assert not list(tmp_path.rglob(".hidden"))


def test_paths_of_this_machine_are_not_pushed(repositories, tmp_path):
    save_tiny(tmp_path / "run", step=10)
    (tmp_path / "run" / "job.json").write_bytes(with_checksum({"store": str(tmp_path)}))
    assert main(["push", str(tmp_path / "run"), "lab/policy"]) == 0
    assert not [name for name, body in repositories["model", "lab/policy"].items() if str(tmp_path).encode() in body]


def test_a_name_that_leads_out_of_the_folder_is_refused(repositories, store, tmp_path, capsys):
    assert main(["push", str(store.root), "lab/cubes"]) == 0
    repositories["dataset", "lab/cubes"]["episodes/../../../outside"] = b"x"
    assert main(["pull", "lab/cubes", "--out", str(tmp_path / "copy")]) == 2
    assert "outside" in capsys.readouterr().err
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["pull", "lab/nothing", "--out", "copy"], "no repository lab/nothing"),
        (["pull", "not an id", "--out", "copy"], "write NAME/REPOSITORY"),
        (["pull", "lab/cubes", "--out", "."], "name a new folder with --out"),
        (["push", "nowhere", "lab/cubes"], "nowhere does not exist; name a store"),
    ],
)
def test_refusals_say_what_to_do(arguments, said, repositories, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert said in capsys.readouterr().err


def test_a_repository_of_something_else_is_refused(repositories, tmp_path, capsys):
    repositories["model", "lab/other"] = {"model.bin": b"x"}
    assert main(["pull", "lab/other", "--out", str(tmp_path / "copy")]) == 2
    assert "holds no store, training run or checkpoint" in capsys.readouterr().err
