"""The MuJoCo workcell: two arms or two hands at one table, seen by the same three cameras."""
