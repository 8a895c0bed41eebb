"""Packages of npm, unpacked in the cache."""

from __future__ import annotations

import tarfile
from functools import partial
from pathlib import Path

from .cache import CACHE, cached, downloaded, verified

PACKAGES = {
    "onnxruntime-common": ("1.30.0", "7906c439e0d3e0f4048caa23b64cdfadc0f455c377f579ce1ab2a4b778f07d5f"),
    "@huggingface/transformers": ("4.3.1", "0325441d6bd7bc7697fccb32ee6e5febc7f89691e42402d071adc678237b8015"),
    "@ricky0123/vad-web": ("0.0.31", "d1a211cf1a2ed26297da52cc08de79e75d79838a274bfc6de546feb1f828c940"),
}
"""Versions, and SHA-256 of the archives."""


def package(name: str) -> Path:
    """Return the folder of a package of `PACKAGES`, downloading it the first time."""
    version, sha256 = PACKAGES[name]
    folder = f"npm-{name.replace('/', '-').removeprefix('@')}-{version}"
    return cached(CACHE / folder, partial(_download, name, version, sha256))


def _download(name: str, version: str, sha256: str, scratch: Path) -> None:
    with downloaded("npm", name, version) as archive:
        verified(archive.read_bytes(), sha256, archive.name)
        with tarfile.open(archive) as tar:
            tar.extractall(scratch, filter="data")
    (scratch / "package").rename(scratch / f"npm-{name.replace('/', '-').removeprefix('@')}-{version}")
