"""The userlands of a Raspberry Pi, Debian's armhf (32 bits) and arm64, whose programs QEMU runs.

python -m tests.edge.userland armhf arm64 trixie        makes them in the cache, once
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from tests.support.cache import CACHE, cached
from tests.support.wheel import build_wheel

USERLANDS = {"armhf": ("bookworm", "armhf"), "arm64": ("bookworm", "arm64"), "trixie": ("trixie", "armhf")}
"""Release and architecture: bookworm has Python 3.11 with NumPy 1.24, trixie Python 3.13 with NumPy 2.2."""
MIRROR = "http://deb.debian.org/debian"
PACKAGES = ("python3-minimal", "python3-numpy", "python3-pip-whl", "ca-certificates")
HOOKS = "/usr/share/mmdebstrap/hooks/merged-usr"
LIBRARIES = {"armhf": "usr/lib/arm-linux-gnueabihf", "arm64": "usr/lib/aarch64-linux-gnu"}
"""Where each architecture has its libraries."""
EMULATORS = {"armhf": "qemu-arm", "arm64": "qemu-aarch64"}
FORMATS = Path("/proc/sys/fs/binfmt_misc")


def registered(userland: str) -> bool:
    """Whether the kernel hands programs of this userland to QEMU; root has it do so from now on."""
    entry = FORMATS / EMULATORS[USERLANDS[userland][1]]
    if not entry.exists() and os.geteuid() == 0:
        if not (FORMATS / "status").exists():
            subprocess.run(["mount", "-t", "binfmt_misc", "binfmt_misc", str(FORMATS)], capture_output=True)
        subprocess.run(["update-binfmts", "--enable"], capture_output=True)
    return entry.exists()


def make(userland: str) -> Path:
    """Return the folder of a userland, which is made where new, with Python and NumPy.

    Packages are unpacked, and what little of their set-up is needed is done here: on QEMU it would take minutes.

    Raises:
        RuntimeError: it cannot be made; the message says why.
    """
    release, architecture = USERLANDS[userland]

    def unpack(scratch: Path) -> None:
        root = scratch / name
        options = [f"--architectures={architecture}", "--variant=extract", f"--include={','.join(PACKAGES)}"]
        source = f"deb {MIRROR} {release} main"
        command = ["mmdebstrap", "--quiet", *options, f"--hook-dir={HOOKS}", release, str(root), source]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise RuntimeError(f"mmdebstrap failed: {' '.join(done.stdout[-1000:].split())}")
        for library in ("blas/libblas.so.3", "lapack/liblapack.so.3"):
            (root / LIBRARIES[architecture] / Path(library).name).symlink_to(library)
        certificates = sorted((root / "usr/share/ca-certificates").rglob("*.crt"))
        bundle = root / "etc/ssl/certs/ca-certificates.crt"
        bundle.write_bytes(b"".join(certificate.read_bytes() for certificate in certificates))

    name = f"{release}-{architecture}"
    return cached(CACHE / "userlands" / name, unpack)


@dataclass(frozen=True)
class Board:
    """A virtual environment in a userland, with the wheel under test; `home` is its folder as its programs see it."""

    root: Path
    home: Path

    def run(self, *arguments: str, files: Mapping[str, bytes] | None = None, timeout: float = 300) -> str:
        """Run the environment's Python in `home`, where `files` come to lie, and return what it printed.

        Raises:
            RuntimeError: it exited with another code than 0; the message holds its standard error.
        """
        for name, content in (files or {}).items():
            (self.outside / name).write_bytes(content)
        return self._chroot(str(self.home / "env/bin/python"), *arguments, timeout=timeout)

    def run_code(self, code: str, files: Mapping[str, bytes] | None = None, *, timeout: float = 300) -> str:
        """The same with a program."""
        return self.run("main.py", files={**(files or {}), "main.py": code.encode()}, timeout=timeout)

    def install(self, wheels: Sequence[Path]) -> None:
        """Have pip install wheels into the environment, from nowhere else; what they need must be there."""
        for wheel in wheels:
            shutil.copy(wheel, self.outside)
        (pip,) = (self.root / "usr/share/python-wheels").glob("pip-*.whl")
        program = f"/usr/share/python-wheels/{pip.name}/pip"
        names = [wheel.name for wheel in wheels]
        self.run(program, "install", "-q", "--no-index", "--no-compile", "--no-cache-dir", *names)

    @property
    def outside(self) -> Path:
        """`home` as this machine sees it."""
        return self.root / self.home.relative_to("/")

    def _chroot(self, *command: str, timeout: float = 300) -> str:
        environment = {"PATH": "/usr/bin", "HOME": str(self.home), "LC_ALL": "C.UTF-8", "COLUMNS": "80"}
        script = f"import os; os.chroot({str(self.root)!r}); os.chdir({str(self.home)!r}); os.execv({command[0]!r}, "
        enter = [sys.executable, "-c", f"{script}{list(command)!r})"]
        done = subprocess.run(enter, capture_output=True, text=True, env=environment, timeout=timeout)
        if done.returncode:
            raise RuntimeError(f"{command} exited with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
        return done.stdout


def wasmtime() -> Path:
    """The wheel of wasmtime for arm64, in the version that this machine has; there is none for armhf."""

    def download(scratch: Path) -> None:
        options = ["--no-deps", "--only-binary", ":all:", "--platform", "manylinux2014_aarch64", "--dest", str(scratch)]
        command = [sys.executable, "-m", "pip", "download", "-qq", *options, f"wasmtime=={version('wasmtime')}"]
        subprocess.run(command, check=True)

    name = f"wasmtime-{version('wasmtime')}-py3-none-manylinux2014_aarch64.whl"
    return cached(CACHE / "packages" / name, download)


@contextmanager
def board(userland: str) -> Iterator[Board]:
    """The userland with the wheel installed as on a Raspberry Pi: beside NumPy from apt, in an environment."""
    root = make(userland)
    outside = Path(tempfile.mkdtemp(prefix="sardonyx-", dir=root / "tmp"))
    made = Board(root, Path("/tmp") / outside.name)
    try:
        made._chroot("/usr/bin/python3", "-m", "venv", "--system-site-packages", "--without-pip", "env")
        made.install([build_wheel()])
        yield made
    finally:
        shutil.rmtree(outside)


if __name__ == "__main__":
    for wanted in sys.argv[1:]:
        registered(wanted)
        print(make(wanted))
