"""What tests need from the machine beyond Python packages: how to see that it is there, and where Debian has it."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import pytest

CI = os.environ.get("CI", "").lower() not in ("", "0", "false")


@dataclass(frozen=True)
class Need:
    """`missing()` says in words what is not there, or None; `packages` are those of Debian that bring it."""

    missing: Callable[[], str | None]
    packages: tuple[str, ...] = ()


def require(name: str) -> None:
    """Skip the running test, with the reason, where the machine lacks `name`; under CI, fail it.

    `name` is a key of `NEEDS`, such as `node`, `webgpu` or `armhf`. May be called at module level.
    """
    if reason := lacks(name):
        absent(reason)


def absent(reason: str) -> NoReturn:
    """Skip the running test, or the module being read; under CI, fail it."""
    if CI:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason, allow_module_level=True)


@cache
def lacks(name: str) -> str | None:
    """Say what is missing for `name` and how to get it, or return None."""
    need = NEEDS[name]
    reason = need.missing()
    if reason and need.packages:
        reason += f" (on Debian: apt-get install {' '.join(need.packages)})"
    return reason


def _no_node() -> str | None:
    if not shutil.which("node") or not shutil.which("npm"):
        return "node or npm is not on the path"
    version = subprocess.run(
        ["node", "--version"], capture_output=True, text=True, check=True, timeout=500
    ).stdout.strip()
    return None if int(version.lstrip("v").split(".")[0]) >= 18 else f"node is {version}, tests need 18 or newer"


def _no_wasm() -> str | None:
    from sardonyx_wasm.hosts import available

    return None if available() else "no WebAssembly host: the package wasmtime is not installed"


def _no_webgpu() -> str | None:
    quieten_vulkan()
    try:
        import wgpu
    except ImportError:
        return "the package wgpu is not installed"
    backends = {adapter.info["backend_type"] for adapter in wgpu.gpu.enumerate_adapters_sync()}
    return None if backends & {"Vulkan", "Metal", "D3D12"} else "wgpu finds no device of Vulkan, Metal or D3D12"


def _no_browser() -> str | None:
    try:
        import playwright  # noqa: F401
    except ImportError:
        return "the package playwright is not installed"
    return None if shutil.which("chromium") else "chromium is not on the path"


def _no_firefox() -> str | None:
    if not find_spec("websockets"):
        return "the package websockets is not installed"
    return None if shutil.which("firefox-esr") or shutil.which("firefox") else "firefox is not on the path"


def _no_webkit() -> str | None:
    from .browsers.webkit import MINI

    programs = {"WebKitWebDriver": shutil.which("WebKitWebDriver"), "MiniBrowser": MINI, "Xvfb": shutil.which("Xvfb")}
    lacking = [name for name, place in programs.items() if not place]
    return f"{' and '.join(lacking)} cannot be found" if lacking else None


def _no_desktop() -> str | None:
    try:
        import tkinter  # noqa: F401
    except ImportError:
        return "Python lacks tkinter"
    return None if shutil.which("Xvfb") else "Xvfb is not on the path"


def _no_pyodide() -> str | None:
    from sardonyx.errors import Fail
    from tests.pyodide.assemble import assemble

    if reason := lacks("node"):
        return reason
    try:
        assemble()
    except (Fail, OSError, ValueError) as error:
        return f"Pyodide cannot be assembled: {error}"
    return None


def _no_torch() -> str | None:
    if find_spec("torch") and find_spec("onnxscript"):
        return None
    return "the packages torch and onnxscript are not installed (pip install -e '.[exports]')"


def _no_emulation() -> str | None:
    tools = [tool for tool in ("mmdebstrap", "qemu-arm-static", "update-binfmts") if not shutil.which(tool)]
    return f"{' and '.join(tools)} cannot be found, which make and run the userlands of boards" if tools else None


def _no_userland(userland: str) -> str | None:
    from tests.edge.userland import make, registered

    if reason := lacks("emulation"):
        return reason
    if os.geteuid():
        return "only root may make userlands of boards and run them"
    if not registered(userland):
        return "the kernel does not hand programs of Arm to QEMU, even after `update-binfmts --enable`"
    try:
        make(userland)
    except (OSError, RuntimeError) as error:
        return f"no userland of {userland} can be made: {error}"
    return None


NEEDS = {
    "node": Need(_no_node, ("nodejs", "npm")),
    "wasm": Need(_no_wasm),
    "webgpu": Need(_no_webgpu, ("mesa-vulkan-drivers", "libvulkan1")),
    "browser": Need(_no_browser, ("chromium",)),
    "firefox": Need(_no_firefox, ("firefox-esr",)),
    "webkit": Need(_no_webkit, ("webkit2gtk-driver", "libwebkit2gtk-4.1-0", "xvfb")),
    "desktop": Need(_no_desktop, ("xvfb", "python3-tk", "fonts-dejavu-core")),
    "pyodide": Need(_no_pyodide),
    "torch": Need(_no_torch),
    "emulation": Need(
        _no_emulation, ("arch-test", "binfmt-support", "debian-archive-keyring", "mmdebstrap", "qemu-user-static")
    ),
    "armhf": Need(partial(_no_userland, "armhf")),
    "arm64": Need(partial(_no_userland, "arm64")),
    "trixie": Need(partial(_no_userland, "trixie")),
}


@cache
def quieten_vulkan() -> None:
    """Give Mesa the runtime folder whose absence it complains about on standard error."""
    if "XDG_RUNTIME_DIR" not in os.environ:
        folder = Path(tempfile.gettempdir()) / f"sardonyx-runtime-{getpass.getuser()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        os.environ["XDG_RUNTIME_DIR"] = str(folder)
