"""Which extra of the package brings a library that is not installed."""

import importlib.util

EXTRAS = {
    "policy": ("torch", "transformers", "tensorboard", "matplotlib", "sklearn", "PIL"),
    "formats": ("h5py", "pyarrow"),
    "studio": ("fastapi", "uvicorn"),
    "serving": ("msgpack", "websockets"),
    "onnx": ("onnx", "onnxscript", "onnxruntime"),
    "realsense": ("pyrealsense2",),
    "ray": ("ray",),
    "hub": ("huggingface_hub",),
    "wandb": ("wandb",),
    "rerun": ("rerun",),
}


def require(*libraries: str) -> None:
    """Before long work that would need them at its end."""
    for library in libraries:
        if importlib.util.find_spec(library) is None:
            raise ModuleNotFoundError(f"No module named {library!r}", name=library)


def advice(error: ModuleNotFoundError) -> str | None:
    """What to install; None for a library that no extra brings, which is our own fault and not the reader's."""
    library = (error.name or "").partition(".")[0]
    for extra, libraries in EXTRAS.items():
        if library in libraries:
            return (
                f"this needs {library}, which is not installed: pip install 'egorecovery[{extra}]', from a checkout "
                f"pip install -e '.[{extra}]'"
            )
    return None
