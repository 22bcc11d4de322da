"""Random-frame reads from our store, from HDF5 and from h264, in one run on one machine.

python benchmarks/store.py [--threads 1 2] [--json PATH]

The same film is kept three ways: JPEG in our store, the very same JPEG bytes as HDF5 vlen datasets, and one mp4 per
camera. All files stay open and in the page cache. Readers take turns batch by batch, so noise hits them alike.
"""

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from threading import Lock
from typing import NamedTuple, Protocol

import av
import h5py
import numpy as np
import simplejpeg
import tyro
from av.video.reformatter import VideoReformatter
from jaxtyping import Float, UInt8
from numpy import ndarray
from numpy.random import Generator
from rich.console import Console
from rich.table import Table
from scipy.ndimage import gaussian_filter

from egorecovery.episodes import (
    PAPER_TASKS,
    RATE_HZ,
    Camera,
    CameraStream,
    Episode,
    EpisodeStore,
    Intrinsics,
    JpegFrames,
    Provenance,
    Source,
    episode_id,
)

OURS = "ours"
HDF5 = "HDF5, handles kept"
HDF5_BY_PATH = "HDF5, by path"  # file open, dataset looked up at each read: robomimic's way (ACT even reopens the file)
H264 = "h264, kept open"
H264_REOPENED = "h264, reopened"  # opened for each read, as LeRobot's PyAV/torchvision reader does


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is stored and how often it is read."""

    episodes: int = 12
    frames: int = 100
    """Per episode: 4 s at 25 Hz."""
    size: int = 224
    batch: int = 64
    """Samples; each is one frame of each of the three cameras."""
    rounds: int = 20
    """In a round each reader, at each number of threads, reads the same batch once."""
    threads: tuple[int, ...] = (1, len(os.sched_getaffinity(0)))
    """Numbers of decoding threads to measure, the same for every reader."""
    gop: int = 2
    """Frames per h264 key frame; 2 is LeRobot's choice, and the kindest to random access short of all-intra."""
    crf: int = 30
    """h264 quality; 30 is LeRobot's."""
    seed: int = 0
    json: Path | None = None
    """Also write all numbers there."""


class Pick(NamedTuple):
    """One wanted frame and where in the batch it goes."""

    slot: int
    episode: int
    camera: Camera
    frame: int


class Reader(Protocol):
    """One way of keeping frames. `fill` may be called from several threads at once."""

    def fill(self, picks: list[Pick], images: UInt8[ndarray, "N H W 3"]) -> None: ...
    def close(self) -> None: ...


class StoreReader:
    """Our store: every episode mapped once."""

    def __init__(self, root: Path) -> None:
        store = EpisodeStore(root)
        self.episodes = [store.read(identifier) for identifier in store.ids()]

    def fill(self, picks: list[Pick], images: UInt8[ndarray, "N H W 3"]) -> None:
        for pick in picks:
            self.episodes[pick.episode].cameras[pick.camera].frames.decode_into(pick.frame, images[pick.slot])

    def touch(self, picks: list[Pick]) -> None:
        """Only finds the bytes; one is read so that a mapped page counts."""
        for pick in picks:
            self.episodes[pick.episode].cameras[pick.camera].frames.encoded(pick.frame)[0]

    def close(self) -> None:
        self.episodes = []


class Hdf5Reader:
    """One file, one vlen uint8 dataset per episode and camera."""

    def __init__(self, path: Path, episodes: int) -> None:
        self.file = h5py.File(path, "r")
        self.jpeg = {(index, camera): self.file[f"{index}/{camera}"] for index in range(episodes) for camera in Camera}

    def encoded(self, pick: Pick) -> UInt8[ndarray, " bytes"]:
        return self.jpeg[pick.episode, pick.camera][pick.frame]

    def fill(self, picks: list[Pick], images: UInt8[ndarray, "N H W 3"]) -> None:
        for pick in picks:
            simplejpeg.decode_jpeg(self.encoded(pick), fastdct=True, fastupsample=True, buffer=images[pick.slot])

    def touch(self, picks: list[Pick]) -> None:
        for pick in picks:
            self.encoded(pick)[0]

    def close(self) -> None:
        self.file.close()


class Hdf5ByPath(Hdf5Reader):
    def __init__(self, path: Path) -> None:
        self.file = h5py.File(path, "r")

    def encoded(self, pick: Pick) -> UInt8[ndarray, " bytes"]:
        return self.file[f"{pick.episode}/{pick.camera}"][pick.frame]


class Mp4:
    """One open video. A decoder has a position, so threads take turns."""

    def __init__(self, path: Path) -> None:
        self.container = av.open(str(path))
        self.stream = self.container.streams.video[0]
        self.stream.codec_context.thread_count = 1  # threads are the caller's, as for the other readers
        self.ticks_per_frame = round(1 / (RATE_HZ * self.stream.time_base))
        self.reformatter = VideoReformatter()  # frame.to_ndarray(format=) would build one per frame
        self.lock = Lock()

    def read(self, frame: int) -> UInt8[ndarray, "H W 3"]:
        wanted = frame * self.ticks_per_frame
        with self.lock:
            self.container.seek(wanted, stream=self.stream, backward=True)
            decoded = next(shown for shown in self.container.decode(self.stream) if shown.pts >= wanted)
            return self.reformatter.reformat(decoded, format="rgb24").to_ndarray()

    def close(self) -> None:
        self.container.close()


class H264Reader:
    """One mp4 per episode and camera, all kept open."""

    def __init__(self, folder: Path, episodes: int) -> None:
        self.videos = {
            (index, camera): Mp4(folder / f"{index}_{camera}.mp4") for index in range(episodes) for camera in Camera
        }

    def fill(self, picks: list[Pick], images: UInt8[ndarray, "N H W 3"]) -> None:
        for pick in picks:
            images[pick.slot] = self.videos[pick.episode, pick.camera].read(pick.frame)

    def close(self) -> None:
        for video in self.videos.values():
            video.close()


class H264Reopened:
    """Nothing is kept between reads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fill(self, picks: list[Pick], images: UInt8[ndarray, "N H W 3"]) -> None:
        for pick in picks:
            video = Mp4(self.folder / f"{pick.episode}_{pick.camera}.mp4")
            images[pick.slot] = video.read(pick.frame)
            video.close()

    def close(self) -> None: ...


def film(rng: Generator, frames: int, size: int) -> Iterator[UInt8[ndarray, "H W 3"]]:
    """A textured table under a slowly moving camera, shaded discs gliding over it, sensor noise of 2 grey levels.

    At quality 90 and 224x224 a frame takes about 14 kB of JPEG, as frames of real tabletop video do (10-20 kB).
    """
    margin = size // 4
    wide = (size + 2 * margin, size + 2 * margin)

    def texture(width_px: float, contrast: float, channels: int) -> Float[ndarray, "H W C"]:
        layers = [gaussian_filter(rng.standard_normal(wide), width_px, mode="wrap") for _ in range(channels)]
        return np.stack([contrast * layer / layer.std() for layer in layers], axis=-1)

    shading = texture(size / 6, 18, 3) + texture(size / 20, 12, 1)
    table = (rng.uniform(80, 170, 3) + shading + texture(3, 6, 1) + texture(1, 3, 1)).astype(np.float32)
    noise = rng.normal(0, 2, (2 * size, 2 * size, 3)).astype(np.float32)
    rows, columns = np.mgrid[0:size, 0:size].astype(np.float32)
    discs = [
        (rng.uniform(0, size, 2), rng.uniform(-2, 2, 2), size * rng.uniform(0.04, 0.14), rng.uniform(20, 235, 3))
        for _ in range(5)
    ]
    for frame in range(frames):
        row, column = (margin * (1 + np.sin(frame / RATE_HZ + np.array([0, 1])))).astype(int)
        image = table[row : row + size, column : column + size].copy()
        for start, speed, radius, colour in discs:
            (row, column), reach = (start + speed * frame) % size, int(radius) + 2
            box = np.s_[max(int(row) - reach, 0) : int(row) + reach, max(int(column) - reach, 0) : int(column) + reach]
            distance = np.hypot(rows[box] - row, columns[box] - column)[..., None]
            image[box] += np.clip(radius - distance, 0, 1) * (colour * (1 - 0.4 * distance / radius) - image[box])
        row, column = rng.integers(0, size, 2)
        image += noise[row : row + size, column : column + size]
        yield np.clip(image, 0, 255).astype(np.uint8)


def build(folder: Path, options: Options) -> dict[str, float]:
    """The same frames in all three forms; returns bytes per frame of JPEG and of h264."""
    store = EpisodeStore.create(folder / "store")
    (folder / "mp4").mkdir()
    jpeg_bytes = h264_bytes = 0
    with store.writing() as writer, h5py.File(folder / "frames.h5", "w") as file:
        for index in range(options.episodes):
            cameras = {}
            for number, camera in enumerate(Camera):
                images = list(film(np.random.default_rng((options.seed, index, number)), options.frames, options.size))
                cameras[camera] = frames = JpegFrames.encode(images)
                dataset = file.create_dataset(f"{index}/{camera}", (len(frames),), h5py.vlen_dtype(np.uint8))
                for frame in range(len(frames)):
                    dataset[frame] = frames.encoded(frame)
                path = folder / "mp4" / f"{index}_{camera}.mp4"
                write_mp4(path, images, options)
                jpeg_bytes, h264_bytes = jpeg_bytes + len(frames.packed), h264_bytes + path.stat().st_size
            writer.add(episode_of(index, cameras, options))
    stored = options.episodes * options.frames * len(Camera)
    return {"jpeg_bytes_per_frame": jpeg_bytes / stored, "h264_bytes_per_frame": h264_bytes / stored}


def write_mp4(path: Path, images: list[UInt8[ndarray, "H W 3"]], options: Options) -> None:
    with av.open(str(path), "w") as container:
        settings = {"g": str(options.gop), "crf": str(options.crf)}
        stream = container.add_stream("libx264", rate=int(RATE_HZ), options=settings)
        stream.height, stream.width, stream.pix_fmt = options.size, options.size, "yuv420p"
        for image in images:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode(None))


def episode_of(index: int, cameras: dict[Camera, JpegFrames], options: Options) -> Episode:
    """The frames with a resting robot around them."""
    frames, size = options.frames, options.size
    times_s = np.arange(frames) / RATE_HZ
    intrinsics = Intrinsics(width=size, height=size, fx=size, fy=size, cx=size / 2, cy=size / 2)
    return Episode(
        id=episode_id(f"bench_{index:03d}"),
        task=PAPER_TASKS["cube_stack"],
        source=Source.ROBOT_SUCCESS,
        timestamps_s=times_s,
        state=np.zeros((frames, 14), np.float32),
        action=np.zeros((frames, 14), np.float32),
        effector_m=np.zeros((frames, 2, 3), np.float32),
        reliable=np.ones((frames, 2), bool),
        cameras={
            camera: CameraStream(frames=jpeg, timestamps_s=times_s, intrinsics=intrinsics)
            for camera, jpeg in cameras.items()
        },
        provenance=Provenance(
            operator="benchmark", started_at="2026-01-01T09:00:00+00:00", stopped_at="2026-01-01T09:00:04+00:00"
        ),
    )


def draw(rng: Generator, options: Options) -> list[Pick]:
    """A batch: random samples, three cameras each."""
    samples = zip(
        rng.integers(0, options.episodes, options.batch).tolist(),
        rng.integers(0, options.frames, options.batch).tolist(),
        strict=True,
    )
    wanted = [(episode, camera, frame) for episode, frame in samples for camera in Camera]
    return [Pick(slot, *which) for slot, which in enumerate(wanted)]


def read_batch(reader: Reader, picks: list[Pick], images: ndarray, threads: int, pool: ThreadPoolExecutor) -> float:
    """Seconds for one batch, split evenly between the threads."""
    started = time.perf_counter()
    if threads == 1:
        reader.fill(picks, images)
    else:
        shares = [picks[share::threads] for share in range(threads)]
        list(pool.map(lambda share: reader.fill(share, images), shares))
    return time.perf_counter() - started


def check_agreement(readers: dict[str, Reader], options: Options) -> float:
    """All readers return the wanted frames: bit for bit where the bytes are the same. Returns h264's PSNR in dB."""
    picks = draw(np.random.default_rng(options.seed), options)
    seen = {name: np.empty((len(picks), options.size, options.size, 3), np.uint8) for name in readers}
    for name, reader in readers.items():
        reader.fill(picks, seen[name])
    for name in (HDF5, HDF5_BY_PATH):
        assert np.array_equal(seen[OURS], seen[name]), "HDF5 and our store hold the same JPEG bytes"
    assert np.array_equal(seen[H264], seen[H264_REOPENED]), "seeking depends on what was read before"
    error = seen[OURS].astype(np.float32) - seen[H264]
    psnr_db = float(10 * np.log10(255**2 / np.mean(error**2, axis=(1, 2, 3)).max()))
    assert psnr_db > 25, f"h264 returned a wrong frame: {psnr_db:.1f} dB"
    return psnr_db


def forget_pages(folder: Path) -> None:
    """Asks the kernel to drop the files from its cache."""
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def opening_ms(folder: Path, options: Options, opened: dict[str, Callable[[], Reader]]) -> dict[str, dict[str, float]]:
    """Per episode, from no handle at all: opened with cached pages, and opened with dropped ones up to first frames."""
    firsts = [Pick(0, episode, camera, 0) for episode in range(options.episodes) for camera in Camera]
    images = np.empty((1, options.size, options.size, 3), np.uint8)
    costs = {}
    for name, make in opened.items():
        warm_s, cold_s = [], []
        for _ in range(5):
            started = time.perf_counter()
            reader = make()
            warm_s.append(time.perf_counter() - started)
            reader.close()
            forget_pages(folder)
            started = time.perf_counter()
            reader = make()
            reader.fill(firsts, images)
            cold_s.append(time.perf_counter() - started)
            reader.close()
        per_episode_ms = 1e3 / options.episodes
        costs[name] = {
            "open_warm_ms": median(warm_s) * per_episode_ms,
            "open_cold_first_frames_ms": median(cold_s) * per_episode_ms,
        }
    return costs


def measure(folder: Path, options: Options) -> dict[str, object]:
    """Frames per second of every reader at every number of threads, with the ratios of our store to the others."""
    opened: dict[str, Callable[[], Reader]] = {
        OURS: lambda: StoreReader(folder / "store"),
        HDF5: lambda: Hdf5Reader(folder / "frames.h5", options.episodes),
        HDF5_BY_PATH: lambda: Hdf5ByPath(folder / "frames.h5"),
        H264: lambda: H264Reader(folder / "mp4", options.episodes),
        H264_REOPENED: lambda: H264Reopened(folder / "mp4"),
    }
    opening = opening_ms(folder, options, {name: opened[name] for name in (OURS, HDF5, H264)})
    readers = {name: make() for name, make in opened.items()}
    psnr_db = check_agreement(readers, options)
    threads = sorted(set(options.threads))
    speeds: dict[tuple[str, int], list[float]] = {(name, count): [] for name in readers for count in threads}
    find_us: dict[str, list[float]] = {OURS: [], HDF5: [], HDF5_BY_PATH: []}
    rng = np.random.default_rng((options.seed, 1))
    n_frames = options.batch * len(Camera)
    images = np.empty((n_frames, options.size, options.size, 3), np.uint8)
    with ThreadPoolExecutor(max(threads)) as pool:
        for warm_up in [True, *[False] * options.rounds]:
            picks = draw(rng, options)
            turns = list(speeds)
            for turn in rng.permutation(len(turns)):
                name, count = turns[turn]
                seconds = read_batch(readers[name], picks, images, count, pool)
                if not warm_up:
                    speeds[name, count].append(n_frames / seconds)
            for name in find_us:
                started = time.perf_counter()
                readers[name].touch(picks)
                find_us[name].append(1e6 * (time.perf_counter() - started) / n_frames)
    for reader in readers.values():
        reader.close()
    return {
        "h264_worst_psnr_db": psnr_db,
        "opening": opening,
        "find_bytes_us": {name: median(values) for name, values in find_us.items()},
        "readers": [
            {"reader": name, "threads": count, **spread(values, speeds[OURS, count])}
            for (name, count), values in speeds.items()
        ],
        "ours_all_threads_over_hdf5_one": median(ratio(speeds[OURS, threads[-1]], speeds[HDF5, threads[0]])),
        "ours_all_threads_over_h264_one": median(ratio(speeds[OURS, threads[-1]], speeds[H264, threads[0]])),
    }


def ratio(ours: list[float], other: list[float]) -> list[float]:
    """Round by round: both read the same batch within a second of each other."""
    return [mine / theirs for mine, theirs in zip(ours, other, strict=True)]


def spread(values: list[float], ours: list[float]) -> dict[str, float]:
    low, middle, high = np.quantile(values, [0.1, 0.5, 0.9])
    return {"frames_per_s": middle, "p10": low, "p90": high, "ours_over_this": median(ratio(ours, values))}


def show(found: dict, console: Console) -> None:
    table = Table(title="random frames from open files, cached pages; a batch is samples x 3 cameras")
    for heading in ("reader", "threads", "frames/s", "10%-90%", "ours is", "finding bytes", "open", "cold open"):
        table.add_column(heading, justify="left" if heading == "reader" else "right", no_wrap=True)
    for row in found["readers"]:
        once = row["threads"] == found["readers"][0]["threads"]
        opening = found["opening"].get(row["reader"]) if once else None
        find_us = found["find_bytes_us"].get(row["reader"]) if once else None
        table.add_row(
            row["reader"],
            str(row["threads"]),
            f"{row['frames_per_s']:,.0f}",
            f"{row['p10']:,.0f}-{row['p90']:,.0f}",
            f"{row['ours_over_this']:.2f}x",
            f"{find_us:.0f} us" if find_us else "",
            f"{opening['open_warm_ms']:.1f} ms" if opening else "",
            f"{opening['open_cold_first_frames_ms']:.1f} ms" if opening else "",
        )
    console.print(table)
    console.print(
        f"JPEG {found['jpeg_bytes_per_frame'] / 1e3:.1f} kB/frame, h264 {found['h264_bytes_per_frame'] / 1e3:.1f} "
        f"kB/frame (worst {found['h264_worst_psnr_db']:.0f} dB). 'ours is' compares equal numbers of threads; opening "
        f"is per episode of 3 cameras, cold includes 3 first frames.\n"
        f"ours with all threads over one thread of HDF5 {found['ours_all_threads_over_hdf5_one']:.2f}x, "
        f"of h264 {found['ours_all_threads_over_h264_one']:.2f}x"
    )


def main(options: Options) -> None:
    console = Console(highlight=False, width=120)
    with tempfile.TemporaryDirectory(prefix="egorecovery_bench_") as folder:
        with console.status("writing the same film three ways"):
            sizes = build(Path(folder), options)
        found = {**sizes, **measure(Path(folder), options)}
    show(found, console)
    if options.json:
        recorded = {"options": {**asdict(options), "json": None}, **found}
        options.json.write_text(json.dumps(recorded, indent=2) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
