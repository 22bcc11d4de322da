"""The tracker process in MediaPipe's environment: JPEG pictures in, one line of JSON per picture out.

It imports nothing of egorecovery. Input: for each picture its length as four little-endian bytes, then the JPEG.
Output: first {"ready": VERSION}, then per picture {"hands": [{"label", "score", "pixels": 21 x 2, "metres": 21 x 3}]}.
"""

import json
import os
import struct
import sys


def main(model: str) -> None:
    # Libraries print to stdout. The protocol keeps the real stdout; the libraries get stderr.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    import cv2  # pyright: ignore[reportMissingImports]
    import mediapipe  # pyright: ignore[reportMissingImports]
    import numpy

    find = landmarker(mediapipe, model) if model else bundled(mediapipe)
    out.write(json.dumps({"ready": mediapipe.__version__}) + "\n")
    out.flush()
    while True:
        head = sys.stdin.buffer.read(4)
        if len(head) < 4:
            return
        encoded = sys.stdin.buffer.read(struct.unpack("<I", head)[0])
        picture = cv2.imdecode(numpy.frombuffer(encoded, numpy.uint8), cv2.IMREAD_COLOR)
        hands = [] if picture is None else find(cv2.cvtColor(picture, cv2.COLOR_BGR2RGB))
        out.write(json.dumps({"hands": hands}) + "\n")
        out.flush()


def bundled(mediapipe):
    """A hand finder with the models in MediaPipe's wheel."""
    hands = mediapipe.solutions.hands.Hands(static_image_mode=False, max_num_hands=2, model_complexity=1)

    def find(rgb):
        answer = hands.process(rgb)
        if not answer.multi_hand_landmarks:
            return []
        hands_found = zip(
            answer.multi_handedness, answer.multi_hand_landmarks, answer.multi_hand_world_landmarks, strict=True
        )
        return [
            hand_record(
                sides.classification[0].label, sides.classification[0].score, image.landmark, world.landmark, rgb
            )
            for sides, image, world in hands_found
        ]

    return find


def landmarker(mediapipe, model):
    """A hand finder with the user's model file (hand_landmarker.task)."""
    vision, tasks = mediapipe.tasks.vision, mediapipe.tasks
    options = vision.HandLandmarkerOptions(
        base_options=tasks.BaseOptions(model_asset_path=model), num_hands=2, running_mode=vision.RunningMode.IMAGE
    )
    detector = vision.HandLandmarker.create_from_options(options)

    def find(rgb):
        answer = detector.detect(mediapipe.Image(image_format=mediapipe.ImageFormat.SRGB, data=rgb))
        hands_found = zip(answer.handedness, answer.hand_landmarks, answer.hand_world_landmarks, strict=True)
        return [
            hand_record(sides[0].category_name, sides[0].score, image, world, rgb)
            for sides, image, world in hands_found
        ]

    return find


def hand_record(label, score, image, world, rgb):
    height, width = rgb.shape[:2]
    return {
        "label": label,
        "score": score,
        "pixels": [[point.x * width, point.y * height] for point in image],
        "metres": [[point.x, point.y, point.z] for point in world],
    }


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
