"""The session: a model, ready to run, with onnxruntime's interface."""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeAlias, TypeVar, overload

from sardonyx.api import ort_config
from sardonyx.api.arguments import check, check_model
from sardonyx.api.feeds import blank, node_arg
from sardonyx.api.options import NodeArg, RunOptions, SessionOptions
from sardonyx.api.ort_value import OrtValue, provider_of
from sardonyx.api.outputs import Target
from sardonyx.api.runner import Runner
from sardonyx.common import debug
from sardonyx.common.forks import Whole
from sardonyx.common.memory import MemoryReport
from sardonyx.common.record import replace
from sardonyx.common.termination import governed, is_governed, loading
from sardonyx.errors import DeviceLost, EngineError, EPFail, Fail, InvalidArgument
from sardonyx.model.metadata import ModelMetadata
from sardonyx.plans.plan import Plan
from sardonyx.providers import registry

if TYPE_CHECKING:  # most sessions do without these
    from sardonyx.api.assignment import OrtEpAssignedSubgraph
    from sardonyx.api.caches import Caches
    from sardonyx.api.capi.wrapper import SessionWrapper
    from sardonyx.api.devices import OrtDevice, OrtEpDevice, OrtMemoryInfo
    from sardonyx.api.io_binding import IOBinding

T = TypeVar("T")
SHRINK = "memory.enable_memory_arena_shrinkage"
RECORD = "session.record_ep_graph_assignment_info"
Callback: TypeAlias = Callable[[list[Any], Any, str], Any]
"""What `run_async` calls with the results, the user's data, and what went wrong or ""."""


class InferenceSession:
    """A model on execution providers, in the order in which they are to be tried.

    A session owns what it was asked for, and a `Runner`: another one after `set_providers`, and when it falls back. The
    runner owns the rest: the providers with their devices, the model with what is read and prepared of it, the names of
    its inputs and outputs, the plans with the memory that they hold, and the profile.

    >>> import numpy as np
    >>> from sardonyx import InferenceSession
    >>> from sardonyx.demo import assets
    >>> model = (assets() / "digits.onnx").read_bytes()
    >>> session = InferenceSession(model, providers=["NumpyExecutionProvider"])
    >>> (probabilities,) = session.run(None, {"image": np.zeros((2, 1, 28, 28), np.float32)})
    >>> probabilities.shape
    (2, 10)
    """

    def __init__(
        self,
        path_or_bytes: str | os.PathLike[str] | bytes | memoryview,
        sess_options: SessionOptions | None = None,
        providers: Sequence[str | tuple[str, Mapping[str, Any]]] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        check(sess_options, (SessionOptions, type(None)), "sess_options")
        check_model(path_or_bytes)
        wanted = kwargs.get("read_config_from_model")
        self._options = ort_config.of_model(sess_options or SessionOptions(), path_or_bytes, wanted)
        self._path_or_bytes = path_or_bytes
        self._disabled = list(kwargs.get("disabled_optimizers") or ())
        self._falls_back = int(kwargs.get("enable_fallback", 1)) == 1
        self._lock = threading.RLock()
        """Held while the session gets another runner."""
        with loading(self._options.loading):
            self._runner = self._new_runner(providers, provider_options, strict=not self._falls_back)

    def __copy__(self) -> Self:
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def __getstate__(self) -> NoReturn:
        raise TypeError(
            "an InferenceSession cannot be pickled, nor copied in depth: its memory and code belong to this process; "
            "keep the model's path or bytes, and make a session of them where it is to run"
        )

    @classmethod
    async def from_url(
        cls,
        url: str,
        sess_options: SessionOptions | None = None,
        providers: Sequence[str | tuple[str, Mapping[str, Any]]] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        *,
        progress: Callable[[int, int], object] | None = None,
        **kwargs: Any,
    ) -> Self:
        """A session for the model, or bundle, at an address, relative to the page, in a worker to the worker's script.

        `progress(loaded, total)` hears of bytes, `total` being 0 where the server does not say. A copy is kept, and
        fetched anew when the server has another (`sardonyx.api.download`). Raises Fail where it cannot be fetched.
        """
        from sardonyx.api.download import fetch  # asyncio takes long to import

        return cls(await fetch(url, progress), sess_options, providers, provider_options, **kwargs)

    def _new_runner(self, names: Any, provider_options: Any, strict: bool) -> Runner:
        return Runner(self._path_or_bytes, self._options, self._disabled, names, provider_options, strict)

    # ---- running

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """The outputs of these names (all if None) for arrays by input name.

        A sequence is a list, a map is a dict, and an optional without element is None, or not fed at all.
        """
        self.check_outputs(output_names)
        if run_options is not None:
            check(run_options, RunOptions, "run_options")
            input_feed = run_options.adapted(input_feed)
        if run_options is None and not is_governed():
            results = self._surviving(lambda runner: runner.run(input_feed))
        else:
            with governed(run_options):
                results = self._surviving(lambda runner: runner.run(input_feed))
        if run_options is not None and run_options.entry(SHRINK):
            self.shrink()
        return self._runner.interface.pick(results, output_names)

    @overload
    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        *,
        run_options: RunOptions | None = None,
    ) -> Awaitable[list[Any]]: ...

    @overload
    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callback,
        user_data: Any = None,
        run_options: RunOptions | None = None,
    ) -> None: ...

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callback | None = None,
        user_data: Any = None,
        run_options: RunOptions | None = None,
    ) -> Awaitable[list[Any]] | None:
        """Begin a run in a thread or, where there are none as in Pyodide, on the event loop.

        When it is over, `callback(results, user_data, error)` is called in that thread, where `error` is a text, ""
        if all went well. Without a callback what is given can be awaited: `results = await session.run_async(None,
        feeds)`. To cancel that ends the run, unless it has `run_options`, whose `terminate` does. What is fed wrongly
        raises at once.
        """
        from sardonyx.api import asynchronous  # asyncio takes long to import

        self.check_outputs(output_names)
        options = run_options or RunOptions()
        input_feed = options.adapted(input_feed)
        runner = self._runner
        call = runner.call(input_feed)

        def work() -> list[Any]:
            with governed(options):
                results = self._surviving(lambda runner: runner.execute(runner.call(input_feed)))
                return self._runner.interface.pick(results, output_names)

        async def awaited() -> list[Any]:
            return runner.interface.pick(await runner.execute_async(call, options), output_names)

        if callback is not None:
            asynchronous.tell(work, awaited, lambda results, error: callback(results, user_data, error))
            return None
        stop = None if run_options else partial(setattr, options, "terminate", True)
        return asynchronous.begin(work, awaited, stop)

    def warm_up(self, *shapes: Mapping[str, Sequence[int]]) -> None:
        """Run once, on zeros, for inputs of each of these sets of shapes, so that later runs have no plan to make, no
        code to compile and no weights to upload. Inputs whose sizes the model tells may be left out. Without any shapes
        there are plans for all sizes that the model leaves open, and no run if there are such.

        >>> from sardonyx.demo import assets
        >>> session = InferenceSession(assets() / "digits.onnx")
        >>> session.warm_up({"image": (1, 1, 28, 28)}, {"image": (8, 1, 28, 28)})
        """
        inputs = self._runner.interface.facts.inputs
        if not shapes and not all(isinstance(size, int) for value in inputs for size in value.shape or (None,)):
            self._runner.plan_all()
            return
        for each in shapes or ({},):
            self.run(None, blank(inputs, each))

    def check_outputs(self, output_names: Sequence[str] | None) -> None:
        """Raise InvalidArgument where the model has no output of a name."""
        self._runner.interface.check_outputs(output_names)

    def _surviving(self, run: Callable[[Runner], T]) -> T:
        """The outputs: on new devices if one was lost, on the CPU if a provider cannot do what it was asked."""
        runner, devices = self._runner, self._runner.providers.devices
        try:
            return run(runner)
        except DeviceLost as error:
            runner.reopen(error, devices)
        except EPFail as error:
            self._fall_back(error, devices)
        except EngineError:
            runner.variants.shrink()  # what a device refuses late, such as memory, may be in the frames that rest
            raise
        return run(self._runner)

    # ---- onnxruntime's private names, which packages read

    @property
    def _sess(self) -> SessionWrapper:
        """The session as scripts reach it that go past onnxruntime's Python class."""
        from sardonyx.api.capi.wrapper import SessionWrapper

        return SessionWrapper(self)

    @property
    def _model_path(self) -> str | None:
        """The path as it was given; None for a model in bytes."""
        given = self._path_or_bytes
        return os.fspath(given) if isinstance(given, str | os.PathLike) else None

    @property
    def _model_bytes(self) -> bytes | memoryview | None:
        """The model as it was given; None for a path."""
        given = self._path_or_bytes
        return None if isinstance(given, str | os.PathLike) else given

    @property
    def _sess_options(self) -> SessionOptions:
        return self.get_session_options()

    @property
    def _providers(self) -> list[str]:
        return self.get_providers()

    @property
    def _provider_options(self) -> dict[str, dict[str, str]]:
        return self.get_provider_options()

    @property
    def _inputs_meta(self) -> list[NodeArg]:
        return self.get_inputs()

    @property
    def _outputs_meta(self) -> list[NodeArg]:
        return self.get_outputs()

    @property
    def _overridable_initializers(self) -> list[NodeArg]:
        return self.get_overridable_initializers()

    @property
    def _model_meta(self) -> ModelMetadata:
        return self.get_modelmeta()

    # ---- running with OrtValues

    def io_binding(self) -> IOBinding:
        """Inputs and outputs to be bound, for `run_with_iobinding`."""
        from sardonyx.api.io_binding import IOBinding

        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Run for the inputs that are bound; what is bound of the outputs is there afterwards."""
        from sardonyx.api.io_binding import IOBinding

        check(iobinding, IOBinding, "iobinding")
        if not iobinding.targets:
            raise InvalidArgument("no output is bound")
        iobinding.results = self.run_bound(iobinding.inputs, iobinding.targets, run_options)

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """The outputs of these names (all if None), on the host, for values wherever they lie."""
        self.check_outputs(output_names)
        names = list(output_names or self._runner.interface.output_names)
        results = self.run_bound(input_dict_ort_values, {name: Target(None) for name in names}, run_options)
        return [results[name] for name in names]

    def run_with_ortvaluevector(
        self,
        run_options: RunOptions | None,
        feed_names: Sequence[str],
        feeds: Sequence[OrtValue],
        fetch_names: Sequence[str],
        fetches: list[OrtValue],
        fetch_devices: Sequence[OrtDevice],
    ) -> None:
        """Put the outputs of these names, for feeds of those names, into the list `fetches`, on these devices."""
        self.check_outputs(fetch_names)
        targets = {
            name: Target(provider_of("cpu" if device.device_type() == device.cpu() else "gpu"))
            for name, device in zip(fetch_names, fetch_devices, strict=True)
        }
        results = self.run_bound(dict(zip(feed_names, feeds, strict=True)), targets, run_options)
        fetches[:] = [results[name] for name in fetch_names]

    def run_bound(
        self, feeds: Mapping[str, OrtValue], targets: Mapping[str, Target], run_options: RunOptions | None = None
    ) -> dict[str, OrtValue]:
        """The outputs where they are wanted, for values wherever they lie (`sardonyx.api.outputs`)."""
        feeds = feeds if run_options is None else run_options.adapted(feeds)
        with nullcontext() if run_options is None and not is_governed() else governed(run_options):
            return self._surviving(lambda runner: runner.run_bound(feeds, targets))

    def caches(
        self, pairs: Mapping[str, str], batch: int = 1, empty: Mapping[str, Sequence[int]] | None = None
    ) -> Caches:
        """Empty caches for the inputs that `pairs` names, each with the output that is that input and what is new.

        They lie on the device of the session's first provider. Where the model does not tell their sizes, `empty` does
        so, by the names of inputs: shapes in which the axis that grows is 0.
        """
        from sardonyx.api.caches import Caches

        return Caches(self._runner, self.get_inputs(), self.get_outputs(), pairs, batch, empty or {})

    def create_ortvalue_from_shape_and_type(
        self,
        shape: Sequence[int],
        element_type: Any,
        device_type: str,
        device_id: int = 0,
        vendor_id: int = -1,
    ) -> OrtValue:
        """A tensor whose contents are undefined, as `OrtValue.ortvalue_from_shape_and_type` makes it."""
        return OrtValue.ortvalue_from_shape_and_type(shape, element_type, device_type, device_id, vendor_id)

    # ---- the model

    def get_inputs(self) -> list[NodeArg]:
        return list(map(node_arg, self._runner.interface.facts.inputs))

    def get_outputs(self) -> list[NodeArg]:
        return list(map(node_arg, self._runner.interface.facts.outputs))

    def get_overridable_initializers(self) -> list[NodeArg]:
        """The initializers that a call may feed: those that are inputs too, from IR version 4 on."""
        return list(map(node_arg, self._runner.interface.facts.overridable))

    def get_modelmeta(self) -> ModelMetadata:
        metadata = self._runner.interface.facts.metadata
        return replace(metadata, custom_metadata_map=dict(metadata.custom_metadata_map))

    def get_input_memory_infos(self) -> list[OrtMemoryInfo]:
        """Where `run` takes each input from: the host."""
        from sardonyx.api.devices import memory_of

        return [memory_of("") for _ in self._runner.interface.facts.inputs]

    def get_output_memory_infos(self) -> list[OrtMemoryInfo]:
        """Where `run` leaves each output: the host."""
        from sardonyx.api.devices import memory_of

        return [memory_of("") for _ in self._runner.interface.facts.outputs]

    def get_input_epdevices(self) -> list[OrtEpDevice | None]:
        """The device of the first provider, for each input."""
        from sardonyx.api.devices import get_ep_devices

        by_provider = {device.ep_name: device for device in get_ep_devices()}
        first = by_provider.get(self._runner.providers.first.name)
        return [first for _ in self._runner.interface.facts.inputs]

    # ---- providers

    def get_session_options(self) -> SessionOptions:
        return self._options

    def get_providers(self) -> list[str]:
        """The providers, in the order in which nodes are offered to them.

        Where the CPU was asked for, `CPUExecutionProvider` stands before what it consists of here.
        """
        return list(self.get_provider_options())

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """The options that have an effect, by provider."""
        return self._runner.providers.options()

    def set_providers(
        self,
        providers: Sequence[str | tuple[str, Mapping[str, Any]]] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Be made anew on these providers; not while other threads run. InvalidValue where one is nobody's."""
        with Whole(), self._lock, loading(self._options.loading):
            self.shrink()  # two runners are there for a moment
            self._runner = self._new_runner(providers, provider_options, strict=True)

    def enable_fallback(self) -> None:
        """Have a run go on with `CPUExecutionProvider` when a provider cannot do what it was asked, as by default."""
        self._falls_back = True

    def disable_fallback(self) -> None:
        """Have a run raise EPFail when a provider cannot do what it was asked."""
        self._falls_back = False

    def _fall_back(self, error: EPFail, devices: Sequence[Any]) -> None:
        """Go on with the CPU, once, unless another thread was here first; raises the error where that is not wanted."""
        with Whole(), self._lock:
            runner = self._runner
            if runner.providers.devices is not devices:
                return
            if not self._falls_back or runner.model.is_bundle or runner.providers.is_fastest_of_cpu():
                raise error
            debug.warn(f"{error}; the session goes on with {registry.CPU}", RuntimeWarning)
            self.set_providers([registry.CPU])
            self.disable_fallback()

    def get_provider_graph_assignment_info(self) -> Sequence[OrtEpAssignedSubgraph]:
        """Which nodes of the optimized model run on which provider: in the last run, or for some sizes before one.

        Raises Fail where the options' entry `session.record_ep_graph_assignment_info` is not "1", as onnxruntime does.
        """
        if self._options.entry(RECORD) != "1":
            raise Fail(f"Session configuration entry '{RECORD}' must be set to \"1\" to have the assignment told")
        return self._runner.model.assignment(self.plans)

    def set_ep_dynamic_options(self, options: Mapping[str, str]) -> None:
        """Accepted for compatibility: no provider has options that change while it runs."""

    def get_tuning_results(self) -> list[Any]:
        """Nothing: nothing is tuned by measuring."""
        return []

    def set_tuning_results(self, results: Any, *, error_on_invalid: bool = False) -> None:
        """Accepted for compatibility: nothing is tuned by measuring."""

    def release_captured_graph(self, graph_annotation_id: int = 0) -> None:
        """Accepted for compatibility: plans are replayed anyway."""

    # ---- plans, memory and profiles

    @property
    def plans(self) -> list[Plan]:
        """The plans kept so far, the one used last first."""
        return self._runner.variants.plans

    @property
    def compiled(self) -> int:
        """How many plans were made."""
        return self._runner.variants.main.compiled

    def memory(self) -> list[MemoryReport]:
        """What the session holds now on each of its providers: weights, arena, and the peak of the process. Where it
        has a memory limit, that and what it uses of it, too."""
        return self._runner.variants.memory(self._runner.providers.names)

    def shrink(self) -> None:
        """Give back the memory that runs leave for later ones; weights stay."""
        self._runner.variants.shrink()

    def end_profiling(self) -> str:
        """Write the profile of all runs so far, and give the name of the file; "" if profiling is not enabled.

        The file is a Chrome trace: https://ui.perfetto.dev shows it.
        """
        return self._runner.profiling.end()

    def get_profiling_start_time_ns(self) -> int:
        return self._runner.profiling.start
