"""Results from strangers: nothing of the reader's leaks into a report, nothing runs in it, and nothing is believed."""

import json
import shutil

import pytest

import published_experiment
from attacks import DEEP, fifo, listing, replace_by_link, reseal, victim, within_s
from egorecovery.cli.main import main
from egorecovery.errors import EgoRecoveryError
from egorecovery.evaluation.results import ResultFile
from egorecovery.experiments import ExperimentFolder, merge
from egorecovery.experiments.damage import experiment_damages
from egorecovery.storage.checksummed_json import with_checksum
from egorecovery.storage.foreign_text import inert, inert_json, inert_markdown
from tiny_experiment import SUITE

pytestmark = pytest.mark.fault
SECRET = b"the reader's own secret"


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    return published_experiment.published(tmp_path_factory.mktemp("published") / "tiny")


@pytest.fixture
def theirs(published, tmp_path):
    return shutil.copytree(published, tmp_path / "theirs")


@pytest.fixture
def cell(theirs):
    return sorted((theirs / "cells").iterdir())[0]


@pytest.fixture
def mine(tmp_path):
    folder = victim(tmp_path / "mine")
    (folder / "secret.mp4").write_bytes(SECRET)
    return folder


def merged(theirs, out):
    """Exit code of the verb; the suite is not one of the paper's, so by the function that the verb calls."""
    return merge([theirs], out, SUITE.name)


def test_whole_results_merge_and_verify(theirs, tmp_path):
    assert len(merged(theirs, tmp_path / "out")) == len(SUITE.conditions)
    assert experiment_damages(tmp_path / "out") == []
    assert main(["verify", str(theirs)]) == 0


def test_links_in_strange_results_are_refused_and_leak_nothing(theirs, cell, mine, tmp_path):
    """F7"""
    before = listing(mine)
    for name in ("films/initial_000_success.mp4", "log.jsonl", "rollouts.jsonl", "cell.json", "films"):
        spoiled = shutil.copytree(theirs, tmp_path / "spoiled")
        replace_by_link(spoiled / "cells" / cell.name / name, mine if name == "films" else mine / "secret.mp4")
        with pytest.raises(EgoRecoveryError, match="link"):
            merged(spoiled, tmp_path / "out")
        out = tmp_path / "out"
        assert not any(SECRET in payload for payload in listing(out).values())
        assert listing(mine) == before
        assert experiment_damages(spoiled)
        shutil.rmtree(spoiled)


@pytest.mark.parametrize("name", ["films/initial_000_success.mp4", "log.jsonl", "rollouts.jsonl", "cell.json"])
def test_devices_and_pipes_in_strange_results_neither_fill_the_disk_nor_hang(theirs, cell, tmp_path, name):
    """F7"""
    for spoil in (fifo, lambda path: replace_by_link(path, "/dev/zero")):
        spoil(cell / name)
        with within_s(20), pytest.raises(EgoRecoveryError):
            merged(theirs, tmp_path / "out")


def test_files_that_are_no_part_of_a_cell_are_not_copied(theirs, cell, tmp_path):
    (cell / "run_me.sh").write_text("rm -rf ~")
    (cell / "films" / "page.html").write_text("<script>")
    merged(theirs, tmp_path / "out")
    names = listing(tmp_path / "out")
    assert not any(name.endswith((".sh", ".html")) for name in names)
    assert any(name.endswith(".mp4") for name in names)


@pytest.mark.parametrize("payload", [b"", DEEP, b"{}\n", b"\xff\xfe"])
@pytest.mark.parametrize("name", ["rollouts.jsonl", "cell.json", "log.jsonl"])
def test_cell_without_its_rollouts_or_with_nonsense_does_not_merge_as_done(theirs, cell, tmp_path, name, payload):
    """F7: cards are bound to their rollouts."""
    (cell / name).write_bytes(payload)
    with pytest.raises(EgoRecoveryError):
        merged(theirs, tmp_path / "out")
    assert experiment_damages(theirs)


def test_lost_rollouts_of_an_older_card_are_counted(theirs, cell, tmp_path):
    """Cards of older versions do not bind their files."""
    reseal(cell / "cell.json", lambda card: card.pop("files"))
    lines = (cell / "rollouts.jsonl").read_bytes().splitlines(keepends=True)
    (cell / "rollouts.jsonl").write_bytes(b"".join(lines[1:]))
    with pytest.raises(EgoRecoveryError, match="rollouts, the card says"):
        merged(theirs, tmp_path / "out")


SCRIPT = "<script>alert(1)</script>"


@pytest.mark.parametrize(
    "change",
    [
        lambda card: card["training"].update(steps=SCRIPT),
        lambda card: card["training"].update(seconds=SCRIPT),
        lambda card: card["training"].update(samples_per_s=SCRIPT),
        lambda card: card["training"].update(scores={"x": SCRIPT}),
        lambda card: card["evaluation"].update(seconds=SCRIPT),
        lambda card: card["protocol"].update(rollouts=SCRIPT),
        lambda card: card.update(seed=10**400),
        lambda card: card.update(budget={"robot_success": SCRIPT}),
        lambda card: card.update(method="x" * 200),
        lambda card: card.update(variant="a\x1b[31m"),
        lambda card: card.update(hardware=[SCRIPT]),
        lambda card: card.update(intervention={"gate": SCRIPT}),
        lambda card: card.update(files={"../../x": "0"}),
        lambda card: card.update(hidden_embodiment=[SCRIPT]),
        lambda card: card.update(off_centre_grips={}),
        lambda card: card.update(turned_hands=[]),
        lambda card: card.update(settings=[SCRIPT]),
        lambda card: card.update(settings={"seed": []}),
    ],
)
def test_card_with_fields_of_other_types_is_one_clear_error(theirs, cell, tmp_path, change):
    """F7"""
    reseal(cell / "cell.json", change)
    with pytest.raises(EgoRecoveryError, match=r"cell\.json"):
        merged(theirs, tmp_path / "out")
    assert experiment_damages(theirs)


def test_foreign_text_is_inert_in_page_and_markdown(theirs, tmp_path):
    """F7, F12"""
    from egorecovery.report import write_report

    def hostile(card):
        card["hardware"]["device"] = f"{SCRIPT} ![x](https://example.org/x.png)"
        card["method"], card["task"] = f"{SCRIPT} method", f"{SCRIPT} | ![x](y)"
        card["revision"] = "abc\n```\n" + SCRIPT
        card["evaluation"]["versions"] = {SCRIPT: "\x1b[31m"}

    for folder in (theirs / "cells").iterdir():
        (folder / "rollouts.jsonl").write_bytes(b"")
        reseal(folder / "cell.json", lambda card: card.pop("files"))
        reseal(folder / "cell.json", hostile)
    report = write_report(theirs)
    assert "<script>alert" not in report.html.read_text()
    text = report.markdown.read_text()
    prose = "".join(text.split("```")[::2])
    assert "<script>" not in prose
    assert "![x]" not in prose
    assert "\x1b" not in text


def test_resealed_rollouts_of_other_types_are_one_clear_error(published, tmp_path):
    """F10"""
    line = json.loads(next((published / "cells").glob("*/rollouts.jsonl")).read_bytes().splitlines()[0])
    line.pop("sha256")
    path = tmp_path / "results.jsonl"
    for change in ({"start": {}}, {"start": 7}, {"outcome": "won"}, {"index": "0"}, {"duration_s": SCRIPT}):
        path.write_bytes(with_checksum({**line, **change}))
        with pytest.raises(EgoRecoveryError, match="not a rollout"):
            ResultFile(path).records()
        assert main(["verify", str(path)]) == 1
    path.write_bytes(with_checksum({name: value for name, value in line.items() if name != "mode"}))
    with pytest.raises(EgoRecoveryError):
        ResultFile(path).records()


def is_refused(root):
    """Another version's results are no damage; they are not merged."""
    try:
        ExperimentFolder(root).require_current()
    except EgoRecoveryError:
        return True
    return False


def test_suite_json_with_any_changed_byte_is_found(theirs):
    path = theirs / "suite.json"
    payload = path.read_bytes()
    for place in range(len(payload)):
        path.write_bytes(payload[:place] + bytes([payload[place] ^ 1]) + payload[place + 1 :])
        assert experiment_damages(theirs) or is_refused(theirs), place
    path.write_bytes(payload)


def test_control_characters_are_shown_instead_of_obeyed():
    """F12"""
    hostile = "a\x1b]0;title\x07b\x9b31m\u202e\udcff\r\x7f"
    assert not set(inert(hostile)) & set(hostile[1:2] + "\x07\x9b\u202e\udcff\r\x7f")
    assert inert("Gänsefüßchen 再試行\n\tok") == "Gänsefüßchen 再試行\n\tok"
    text = json.dumps({"id": hostile}, ensure_ascii=False)
    assert json.loads(inert_json(text)) == {"id": hostile}
    assert "\x9b" not in inert_json(text)
    assert inert_markdown("a | <b>\n[x](y)") == r"a \| &lt;b&gt; \[x\](y)"


def test_terminal_shows_a_hostile_name_without_obeying_it(capsys):
    """F12"""
    from egorecovery.cli.console import InertConsole

    InertConsole(markup=False, highlight=False).print("id \x1b[2J\x1b]0;pwned\x07 end")
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert "\x07" not in said
    assert main(["verify", "/nowhere/\x1b[31m"]) == 2
    assert "\x1b" not in capsys.readouterr().err
