"""The contract of providers: which members it has, that all are explained, and that our own keep it."""

from __future__ import annotations

import ast
import asyncio
import inspect
from typing import Any, NoReturn

import numpy as np
import pytest

from sardonyx import errors, providers
from sardonyx.providers import Address, Device, Executable, Provider, contract, registry
from tests.engine.providers import PROVIDERS
from tests.support.forwarding import ForwardingDevice

NAMES = "ALIGNMENT Address Bundler Device Executable LoopBody Provider Sections SegmentLaunch Tensor Turn"
REQUIRED = {
    "Provider": "device name supports",
    "Device": "allocate download load upload",
    "Executable": "bind",
    "LoopBody": "__call__ repeat",
    "Bundler": "provider read target write",
}
DEFAULTS = {
    "Provider": {
        "epilogues": frozenset(),
        "form": "program",
        "heaviest": None,
        "lanes": 1,
        "literal": 1 << 62,
        "max_buffers": 1 << 30,
        "options": None,
        "prefers_integers": False,
        "routines": frozenset(),
        "rows": False,
        "strided": {},
        "summed": {},
        "takes_threads": False,
    },
    "Device": {"in_order": False, "is_lost": False, "largest": None, "reads_together": False},
    "Executable": {},
    "LoopBody": {},
    "Bundler": {},
}
METHODS = {
    "Provider": "available bundler describe fingerprint is_software largest open rewrite",
    "Device": "constant copy download_all download_all_async flush free in_place load_body reads_in_place synchronize "
    "timed view",
    "Executable": "rebind",
    "LoopBody": "",
    "Bundler": "narrow",
}


def members(kind: type) -> dict[str, bool]:
    """The members that a class declares by itself, and whether a docstring explains each."""
    (tree,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found[node.name] = bool(ast.get_docstring(node))
        elif isinstance(node, ast.AnnAssign):
            found[ast.unparse(node.target)] = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
    return found


def test_public_names() -> None:
    assert sorted(providers.__all__) == sorted(contract.__all__) == sorted(NAMES.split())
    for name in NAMES.split():
        assert getattr(providers, name) is getattr(contract, name)


@pytest.mark.parametrize("name", REQUIRED)
def test_members(name: str) -> None:
    kind = getattr(contract, name)
    wanted = [*REQUIRED[name].split(), *DEFAULTS[name], *METHODS[name].split()]
    assert sorted(members(kind)) == sorted(wanted)
    assert all(members(kind).values())
    assert kind.__abstractmethods__ == {each for each in REQUIRED[name].split() if each in vars(kind)}


class Least(Provider):
    """A provider that brings what it must, and nothing else."""

    name = "LeastExecutionProvider"

    def supports(self, *question: Any) -> bool:
        return False

    def device(self, options: Any) -> LeastDevice:
        return LeastDevice()


class LeastDevice(Device):
    def allocate(self, nbytes: int) -> bytearray:
        return bytearray(nbytes)

    def upload(self, address: Address, array: np.ndarray) -> None:
        address.chunk[address.offset : address.offset + array.nbytes] = array.tobytes()

    def download(self, address: Address, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
        end = address.offset + int(np.prod(shape)) * dtype.itemsize
        return np.frombuffer(address.chunk[address.offset : end], dtype).reshape(shape).copy()

    def load(self, codes: Any, segments: Any) -> Executable:
        raise errors.EPFail("nothing runs here")


def test_defaults() -> None:
    provider = Least()
    device = provider.device({})
    for kind, instance in (("Provider", provider), ("Device", device)):
        assert {name: getattr(instance, name) for name in DEFAULTS[kind]} == DEFAULTS[kind]
    assert provider.available()
    assert (provider.bundler(), provider.fingerprint(), provider.largest()) == (None, None, None)
    assert provider.describe() == {}
    assert not provider.is_software(device)
    asyncio.run(provider.open({}))


def test_default_memory() -> None:
    device = LeastDevice()
    x = np.arange(6, dtype=np.float32)[::-1]
    address = device.constant(x)
    assert not device.reads_in_place(x)
    assert device.in_place(x) is None
    assert device.view(address, x.dtype, x.shape) is None
    target = Address(device.allocate(24), 0, 24)
    device.copy(address, target)
    device.free(address.chunk)
    for found in (device.download_all, lambda tensors: asyncio.run(device.download_all_async(tensors))):
        one, other = found([(target, x.dtype, (6,)), (target, x.dtype, (2, 3))])
        np.testing.assert_array_equal(one, x)
        np.testing.assert_array_equal(other, x.reshape(2, 3))
    ran: list[int] = []
    assert device.timed(lambda: ran.append(1)) is None
    assert ran == [1]
    device.flush()


@pytest.mark.parametrize("kind", [Provider, Device, Executable, contract.LoopBody, contract.Bundler])
def test_what_must_be_given(kind: Any) -> None:
    with pytest.raises(TypeError, match="abstract"):
        kind()


@pytest.mark.parametrize("provider", PROVIDERS)
def test_our_own(provider: str) -> None:
    found = registry.load(provider)
    device = found.device({})
    assert isinstance(found, Provider)
    assert isinstance(device, Device)
    assert device.reads_together == (type(device).download_all is not Device.download_all)
    bundler = found.bundler()
    assert bundler is None or (isinstance(bundler, contract.Bundler) and isinstance(bundler.provider, type(found)))


def test_forwarding_leaves_nothing_out() -> None:
    device = ForwardingDevice(LeastDevice())
    assert {*vars(ForwardingDevice), *vars(device)} >= {*members(Device)}


def test_an_entry_point_of_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.installed(), "OddExecutionProvider", object)
    with pytest.raises(errors.EPFail, match=r"OddExecutionProvider: .* does not derive from sardonyx"):
        registry.load("OddExecutionProvider")


def test_an_entry_point_of_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.installed(), "OtherExecutionProvider", lambda: registry.load(registry.NUMPY))
    with pytest.raises(errors.EPFail, match=r"OtherExecutionProvider: .* is called .NumpyExecutionProvider.; let both"):
        registry.load("OtherExecutionProvider")


def test_what_cannot_be_loaded_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def load() -> NoReturn:
        raise ModuleNotFoundError("No module named 'broken'")

    monkeypatch.setitem(registry.installed(), "BrokenExecutionProvider", load)
    with pytest.warns(UserWarning, match=r"BrokenExecutionProvider is installed, and cannot be loaded: No module"):
        assert "BrokenExecutionProvider" not in registry.available()
