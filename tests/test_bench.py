"""`egorecovery bench` on whatever there is: the figures must be there and agree with each other."""

import json

import pytest
import torch

from egorecovery.cli.main import main


@pytest.fixture
def one_thread():
    """Other cores may be busy, and threads that wait for each other spin."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_speed_is_measured_told_and_written(one_thread, tmp_path, capsys):
    path = tmp_path / "speed.json"
    assert main(["bench", "--recipe", "demo", "--device", "cpu", "--steps", "2", "--json", str(path)]) == 0
    output = capsys.readouterr().out
    assert "samples per second" in output
    assert "share of the ceiling" in output
    speed = json.loads(path.read_text())
    assert speed["samples_per_s"] == pytest.approx(1e3 * speed["batch"] / speed["step_ms"])
    assert speed["tflops"] == pytest.approx(1e3 * speed["tflop_per_step"] / speed["step_ms"])
    assert speed["of_ceiling"] == pytest.approx(speed["tflops"] / speed["ceiling_tflops"])
    assert 0 < speed["of_ceiling"] < 1
    assert set(speed["latency_ms"]) == {"1", "16"}
