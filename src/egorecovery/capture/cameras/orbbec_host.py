"""Writes an Orbbec camera's pictures to stdout. Runs in a separate environment with `pyorbbecsdk2`.

It imports nothing of egorecovery: the SDK needs numpy 1, this project numpy 2. Every message is

    4 bytes  "EGO1"
    4 bytes  length of the header, little endian
    4 bytes  length of the payload
    header   JSON
    payload  the JPEG, then the depth map (uint16, millimetres) where there is one

The first message describes the camera, later ones are pictures, the last one may be an error.
"""

import argparse
import json
import os
import struct
import sys

MAGIC = b"EGO1"
WAIT_MS = 1000
LOST_AFTER = 5  # waits without a picture


def say(stream, header, *payloads):
    encoded = json.dumps(header).encode()
    stream.write(MAGIC + struct.pack("<II", len(encoded), sum(len(payload) for payload in payloads)) + encoded)
    for payload in payloads:
        stream.write(payload)
    stream.flush()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--serial", default="")
    parser.add_argument("--width", type=int, required=True)
    parser.add_argument("--height", type=int, required=True)
    parser.add_argument("--fps", type=int, required=True)
    parser.add_argument("--depth", action="store_true")
    wanted = parser.parse_args()
    # The SDK logs to stdout from C++. It gets stderr, and messages use a separate descriptor.
    messages = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        deliver(messages, wanted)
    except BrokenPipeError:
        return 0
    except ImportError as error:
        advice = "%s (%s -m pip install pyorbbecsdk2)" % (error, sys.executable)  # noqa: UP031 - any Python 3
        say(messages, {"error": advice})
        return 1
    except Exception as error:
        say(messages, {"error": "%s: %s" % (type(error).__name__, error)})  # noqa: UP031 - any Python 3
        return 1
    return 0


def deliver(messages, wanted):
    import numpy as np
    import pyorbbecsdk as ob  # pyright: ignore[reportMissingImports] - in the environment of its own

    device = find_device(ob, wanted.serial)
    synchronised = device.is_global_timestamp_supported()
    if synchronised:
        device.enable_global_timestamp(True)  # the SDK maps the device's stamps to the system clock
    pipeline, config = ob.Pipeline(device), ob.Config()
    colours = pipeline.get_stream_profile_list(ob.OBSensorType.COLOR_SENSOR)
    config.enable_stream(colours.get_video_stream_profile(wanted.width, wanted.height, ob.OBFormat.MJPG, wanted.fps))
    align = None
    if wanted.depth:
        depths = pipeline.get_stream_profile_list(ob.OBSensorType.DEPTH_SENSOR)
        config.enable_stream(depths.get_default_video_stream_profile())
        pipeline.enable_frame_sync()
        align = ob.AlignFilter(align_to_stream=ob.OBStreamType.COLOR_STREAM)
    pipeline.start(config)
    try:
        silent = 0
        described = False
        while silent < LOST_AFTER:
            frames = pipeline.wait_for_frames(WAIT_MS)
            colour = frames.get_color_frame() if frames else None
            if colour is None:
                silent += 1
                continue
            silent = 0
            if not described:  # the SDK knows the parameters of the chosen profiles once pictures flow
                say(messages, description(pipeline.get_camera_param().rgb_intrinsic, synchronised))
                described = True
            header = {
                "stamped_s": (colour.get_global_timestamp_us() if synchronised else colour.get_timestamp_us()) / 1e6
            }
            jpeg, payloads = bytes(colour.get_data()), []
            header["jpeg"] = len(jpeg)
            if align is not None:
                depth = depth_mm(np, align.process(frames))
                if depth is None:
                    continue  # a picture without its depth would shift the two against each other
                header["depth"] = list(depth.shape)
                payloads.append(depth.tobytes())
            say(messages, header, jpeg, *payloads)
        raise RuntimeError("no picture for %d seconds" % (LOST_AFTER * WAIT_MS // 1000))  # noqa: UP031
    finally:
        pipeline.stop()


def find_device(ob, serial):
    devices = ob.Context().query_devices()
    if devices.get_count() == 0:
        raise RuntimeError("no Orbbec camera is connected")
    return devices.get_device_by_serial_number(serial) if serial else devices.get_device_by_index(0)


def description(known, synchronised):
    names = ("width", "height", "fx", "fy", "cx", "cy")
    return {"intrinsics": {name: getattr(known, name) for name in names}, "synchronised": bool(synchronised)}


def depth_mm(np, aligned):
    depth = aligned.as_frame_set().get_depth_frame() if aligned else None
    if depth is None:
        return None
    raw = np.frombuffer(depth.get_data(), dtype=np.uint16).reshape(depth.get_height(), depth.get_width())
    return np.clip(np.rint(raw * depth.get_depth_scale()), 0, 65535).astype(np.uint16)


if __name__ == "__main__":
    sys.exit(main())
