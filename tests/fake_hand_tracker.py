"""Speaks the hand tracker's protocol without MediaPipe; the first argument says how it behaves."""

import json
import struct
import sys
import time

PALM = [[0.0, 0.05, 0.0], [0.02, 0.03, 0.0], [0.03, 0.01, 0.0], [0.035, -0.01, 0.0], [0.04, -0.03, 0.0]]


def points(side: float, curl: float) -> list[list[float]]:
    """21 points of a hand with fingers up the picture, palm to the camera; `curl` bends the tips to the camera."""
    found = [*PALM]
    for finger in range(4):
        across = 0.025 - 0.016 * finger
        found += [[across, -0.02 - 0.02 * joint, -curl * joint / 3] for joint in range(4)]
    return [[side * x, y, z] for x, y, z in found]


def hand(label: str, side: float, middle: tuple[float, float], score: float = 0.9, distance_m: float = 0.5) -> dict:
    metres = points(side, 0.04)
    pixels = [[middle[0] + 64 * x / (z + distance_m), middle[1] + 64 * y / (z + distance_m)] for x, y, z in metres]
    return {"label": label, "score": score, "pixels": pixels, "metres": metres}


def main(how: str) -> None:
    if how == "silent":
        time.sleep(600)
    if how == "broken":
        sys.stderr.write("ImportError: no such model\n")
        raise SystemExit(3)
    print(json.dumps({"ready": "fake 1"}), flush=True)
    frame = 0
    while head := sys.stdin.buffer.read(4):
        encoded = sys.stdin.buffer.read(struct.unpack("<I", head)[0])
        assert encoded[:2] == b"\xff\xd8"
        if how == "dies" and frame == 2:
            raise SystemExit(1)
        if how == "babbles":
            print("x" * 1_000_000, flush=True)
        elif how == "nan":
            hand_seen = hand("Left", 1.0, (20.0, 24.0))
            hand_seen["metres"][3][1] = float("nan")
            print(json.dumps({"hands": [hand_seen]}), flush=True)
        elif how == "nonsense":
            print(json.dumps({"hands": [{"label": "Third", "score": 1}]}), flush=True)
        else:
            # A camera that is no mirror: the person's right hand is called Left. Thumb at +x is a right hand's here.
            right, left = hand("Left", 1.0, (44.0, 24.0)), hand("Right", -1.0, (20.0, 24.0))
            hands = [right, left, hand("Left", 1.0, (10.0, 10.0), score=0.4)] if frame != 1 else [left]
            if how == "exchanged":
                for each in hands:
                    each["label"] = "Right" if each["label"] == "Left" else "Left"
            print(json.dumps({"hands": hands}), flush=True)
        frame += 1


if __name__ == "__main__":
    main(sys.argv[1])
