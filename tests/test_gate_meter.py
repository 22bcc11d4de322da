"""The live line of a robot's state."""

import pytest

from egorecovery.robot.controller import Status
from egorecovery.robot.gate_meter import WIDTH, meter_line
from egorecovery.robot.guard import Phase


@pytest.mark.parametrize("gate", [None, 0.0, 0.4, 1.0])
@pytest.mark.parametrize("phase", list(Phase))
def test_no_number_of_the_line_is_ever_cut(phase, gate):
    line = meter_line(Status(phase=phase, gate=gate, delay_s=1.234, speed=1.0, clamps=99999))
    assert len(line) == WIDTH
    assert line.rstrip().endswith("delay 1234 ms  speed 100%  clamps 99999")
    longer = meter_line(Status(phase=phase, gate=gate, delay_s=12.345, speed=1.0, clamps=123456789))
    assert len(longer) == WIDTH
    assert longer.rstrip().endswith("delay 12345 ms  speed 100%  clamps 123456789")


def test_the_bar_is_as_full_as_the_gate():
    assert "gate [######------] 0.50" in meter_line(Status(gate=0.5))
    assert "gate [            ]   - " in meter_line(Status())
