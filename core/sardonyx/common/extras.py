"""Packages that are not required: which extra of this distribution has each, and the command that installs it."""

from __future__ import annotations

EXTRAS = {
    "gpu": ("wgpu",),
    "wasm": ("wasmtime", "threadpoolctl"),
    "serve": ("flask", "waitress"),
    "camera": ("opencv-python-headless",),
    "tools": ("onnx", "ml_dtypes"),
    "torch": ("torch", "onnxscript"),
    "genai": ("tokenizers", "jinja2", "llguidance"),
    "cli": ("jinja2", "rich", "pillow"),
}


def install(package: str) -> str:
    """The command that installs a package, and those that its extra lists after it.

    >>> install("wgpu"), install("wasmtime"), install("onnxruntime")
    ('pip install wgpu', 'pip install wasmtime threadpoolctl', 'pip install onnxruntime')
    """
    together = next((packages for packages in EXTRAS.values() if package in packages), (package,))
    return f"pip install {' '.join(together[together.index(package) :])}"


def missing(package: str) -> str:
    """What is said where a package is needed and not there.

    >>> missing("wgpu")
    'wgpu is not installed; pip install wgpu'
    """
    return f"{package} is not installed; {install(package)}"
