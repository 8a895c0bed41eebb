"""What a session does when a device is lost, or cannot do what it was asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from sardonyx.api.options import SessionOptions
from sardonyx.common import debug
from sardonyx.common.termination import loading
from sardonyx.errors import DeviceLost, EngineError, EPFail
from sardonyx.providers import registry
from sardonyx.providers.contract import Device, Provider
from sardonyx.runtime.weights import Weights

T = TypeVar("T")


class FallsBack:
    """The part of a session that goes on where a provider does not."""

    _begin: Callable[[Any, Any, bool], None]
    _bundle: Any
    _chosen: Sequence[tuple[Provider, Mapping[str, str]]]
    _devices: list[Device]
    _falls_back: bool
    _function: Callable[..., Any]
    _new_weights: Callable[[], Weights]
    _options: SessionOptions
    _reading: threading.RLock
    _variants: Mapping[Any, Any]
    _weights: Weights
    shrink: Callable[[], None]

    def _surviving(self, run: Callable[[], T]) -> T:
        """The outputs, on new devices if one was lost."""
        devices = self._devices
        try:
            return run()
        except DeviceLost as error:
            self._renounce(error, devices)
        except EPFail as error:
            self._fall_back(error, devices)
        except EngineError:
            self.shrink()  # what a device refuses late, such as memory, may be in the frames that rest
            raise
        return run()

    def enable_fallback(self) -> None:
        """Have a run go on with `CPUExecutionProvider` when a provider cannot do what it was asked, as by default."""
        self._falls_back = True

    def disable_fallback(self) -> None:
        """Have a run raise EPFail when a provider cannot do what it was asked."""
        self._falls_back = False

    def set_providers(
        self,
        providers: Sequence[str | tuple[str, Mapping[str, Any]]] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Be made anew on these providers; not while other threads run. InvalidValue where one is nobody's."""
        with self._reading, loading(self._options.loading):
            for name in ("_model", "_graph", "_output_names", "_sparse_outputs", "_input_names"):
                self.__dict__.pop(name, None)
            self._begin(providers, provider_options, True)

    def _fall_back(self, error: EPFail, devices: list[Device]) -> None:
        """Go on with the CPU, once, unless another thread was here first; raises the error where that is not wanted."""
        with self._reading:
            if self._devices is not devices:
                return
            if not self._falls_back or self._bundle or self._chosen[0][0].name in registry.FASTEST:
                raise error
            debug.warn(f"{error}; the session goes on with {registry.CPU}", RuntimeWarning)
            self.set_providers([registry.CPU])
            self.disable_fallback()

    def _renounce(self, error: DeviceLost, devices: list[Device]) -> None:
        """Have no devices, unless another thread was here first. The next run opens them: plans stay, weights are
        uploaded again."""
        with self._reading:
            if self._devices is not devices:
                return
            debug.warn(f"{error}; it is opened again, and the model runs once more", RuntimeWarning)
            self._devices, self._weights = [], self._new_weights()
            for variant in self._variants.values():
                variant.function = self._function([executor.original for executor in variant.function.executors])
