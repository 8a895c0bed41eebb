"""The userlands of a Raspberry Pi, Debian's armhf (32 bits) and arm64, whose programs QEMU runs.

python -m tests.edge.userland armhf arm64 trixie        makes them in the cache, once
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from sardonyx.common.fingerprint import fingerprint
from tests.support.cache import CACHE, cached
from tests.support.wheel import build_wheel

USERLANDS = {"armhf": ("bookworm", "armhf"), "arm64": ("bookworm", "arm64"), "trixie": ("trixie", "armhf")}
"""Release and architecture: bookworm has Python 3.11 with NumPy 1.24, trixie Python 3.13 with NumPy 2.2."""
MIRROR = "http://deb.debian.org/debian"
PACKAGES = ("python3-minimal", "python3-numpy", "python3-pip-whl", "ca-certificates", "libstdc++6")
"""What every Raspberry Pi has, libstdc++6 for wheels of others, as tokenizers'."""
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
            subprocess.run(
                ["mount", "-t", "binfmt_misc", "binfmt_misc", str(FORMATS)], capture_output=True, timeout=3600
            )
        subprocess.run(["update-binfmts", "--enable"], capture_output=True, timeout=3600)
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
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=3600)
        if done.returncode:
            raise RuntimeError(f"mmdebstrap failed: {' '.join(done.stdout[-1000:].split())}")
        for library in ("blas/libblas.so.3", "lapack/liblapack.so.3"):
            (root / LIBRARIES[architecture] / Path(library).name).symlink_to(library)
        certificates = sorted((root / "usr/share/ca-certificates").rglob("*.crt"))
        bundle = root / "etc/ssl/certs/ca-certificates.crt"
        bundle.write_bytes(b"".join(certificate.read_bytes() for certificate in certificates))

    digest = fingerprint(" ".join(PACKAGES).encode()).hexdigest()[:8]
    name = f"{release}-{architecture}-{digest}"
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

    def measure(self, code: str, files: Mapping[str, bytes] | None = None, *, timeout: float = 300) -> tuple[str, int]:
        """Run a program; what it printed, and the most bytes that it held, without those of QEMU itself."""
        held = [0]

        def watch(process: subprocess.Popen[str]) -> None:
            while process.poll() is None:
                held[0] = max(held[0], guest_memory(process.pid))
                time.sleep(0.25)

        for name, content in {**(files or {}), "main.py": code.encode()}.items():
            (self.outside / name).write_bytes(content)
        return self._chroot(str(self.home / "env/bin/python"), "main.py", timeout=timeout, watch=watch), held[0]

    def install(self, wheels: Sequence[Path], *options: str) -> None:
        """Have pip install wheels into the environment, from nowhere else; what they need must be there."""
        for wheel in wheels:
            shutil.copy(wheel, self.outside)
        (pip,) = (self.root / "usr/share/python-wheels").glob("pip-*.whl")
        program = f"/usr/share/python-wheels/{pip.name}/pip"
        names = [wheel.name for wheel in wheels]
        self.run(program, "install", "-q", "--no-index", "--no-compile", "--no-cache-dir", *options, *names)

    @property
    def outside(self) -> Path:
        """`home` as this machine sees it."""
        return self.root / self.home.relative_to("/")

    def _chroot(
        self, *command: str, timeout: float = 300, watch: Callable[[subprocess.Popen[str]], None] | None = None
    ) -> str:
        environment = {"PATH": "/usr/bin", "HOME": str(self.home), "LC_ALL": "C.UTF-8", "COLUMNS": "80"}
        script = f"import os; os.chroot({str(self.root)!r}); os.chdir({str(self.home)!r}); os.execv({command[0]!r}, "
        enter = [sys.executable, "-c", f"{script}{list(command)!r})"]
        pipe = subprocess.PIPE
        with subprocess.Popen(enter, stdout=pipe, stderr=pipe, text=True, env=environment) as process:
            if watch:
                threading.Thread(target=watch, args=[process], daemon=True).start()
            try:
                out, err = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        if process.returncode:
            raise RuntimeError(f"{command} exited with {process.returncode}:\n{out[-2000:]}{err[-4000:]}")
        return out


def guest_memory(pid: int) -> int:
    """The bytes that a program of 32 bits holds under QEMU, which has 4 GB of addresses in a row for it; 0 where it
    has begun as another program, or has ended."""
    runs: list[list[int]] = []  # where mappings without gaps begin and end, and what they hold
    try:
        for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
            if found := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
                start, end = (int(each, 16) for each in found.groups())
                if not runs or runs[-1][1] != start:
                    runs.append([start, end, 0])
                runs[-1][1] = end
            elif line.startswith("Rss:"):
                runs[-1][2] += 1024 * int(line.split()[1])
    except OSError:
        return 0
    return max((held for start, end, held in runs if end - start > 3 << 30), default=0)


def wheel(package: str, platform: str, tag: str) -> Path:
    """The wheel of a package for another platform, in the version that this machine has; `tag` ends its name."""

    def download(scratch: Path) -> None:
        options = ["--no-deps", "--only-binary", ":all:", "--platform", platform, "--dest", str(scratch)]
        command = [sys.executable, "-m", "pip", "download", "-qq", *options, f"{package}=={version(package)}"]
        subprocess.run(command, check=True, timeout=3600)

    return cached(CACHE / "packages" / f"{package}-{version(package)}-{tag}.whl", download)


def wasmtime() -> Path:
    """The wheel of wasmtime for arm64; there is none for armhf."""
    return wheel("wasmtime", "manylinux2014_aarch64", "py3-none-manylinux2014_aarch64")


def tokenizers() -> Path:
    """The wheel of tokenizers for armhf."""
    return wheel("tokenizers", "manylinux2014_armv7l", "cp310-abi3-manylinux_2_17_armv7l.manylinux2014_armv7l")


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
