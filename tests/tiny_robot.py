"""An arm of six hinges as a URDF, and the JSON file that names two of them."""

from pathlib import Path

URDF = """<robot name="six">
{links}
</robot>"""


def urdf(folder: Path) -> Path:
    """An arm of six hinges about z, y, y, x, y, x with 0.1 m between them, and a tool on a fixed joint."""
    axes = ["0 0 1", "0 1 0", "0 1 0", "1 0 0", "0 1 0", "1 0 0"]
    mass = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    links = [f'<link name="l{index}">{mass}</link>' for index in range(7)] + [f'<link name="flange_tip">{mass}</link>']
    for index, axis in enumerate(axes):
        links.append(
            f'<joint name="j{index}" type="revolute"><parent link="l{index}"/><child link="l{index + 1}"/>'
            f'<origin xyz="0.1 0 0"/><axis xyz="{axis}"/><limit lower="-3" upper="3" effort="1" velocity="1"/></joint>'
        )
    links.append(
        '<joint name="fixed" type="fixed"><parent link="l6"/><child link="flange_tip"/><origin xyz="0.1 0 0"/></joint>'
    )
    path = folder / "arm.urdf"
    path.write_text(URDF.format(links="\n".join(links)))
    return path


def described(model: str = "arm.urdf", y_m: float = 0.0, **changes):
    return {
        "model": model,
        "tool": "flange_tip",
        "joints": {"names": [f"j{index}" for index in range(6)]},
        "axes": {"approach": "+x", "opening": "+y"},
        "base": {"position_m": [0.0, y_m, 0.0]},
        **changes,
    }
