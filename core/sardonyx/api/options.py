"""Options of sessions and runs, with onnxruntime's names and defaults."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from sardonyx import errors
from sardonyx.common import debug, forks, units
from sardonyx.common.enums import Choice
from sardonyx.common.record import field, fields, record
from sardonyx.passes.changes import ModelChanges
from sardonyx.passes.levels import GraphOptimizationLevel

if TYPE_CHECKING:  # most options do without these
    from sardonyx.api.devices import OrtEpDevice, OrtExecutionProviderDevicePolicy


class Adapter(Protocol):
    """A `LoraAdapter`: tensors, by the names of the initializers that they are fed for."""

    parameters: dict[str, Any]


class ExecutionMode(Choice):
    """Accepted for compatibility: kernels run in order."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(Choice):
    """Accepted for compatibility: kernels run in the order of the plan."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


LOAD_FORMAT, SAVE_FORMAT = "session.load_model_format", "session.save_model_format"
_terminating = threading.RLock()  # a signal's handler may end a run that is about to begin, or to be over
forks.register(_terminating.acquire, _terminating.release, _terminating.release)
MOST_DEVICES = 8
"""How many a delegate may choose, as in onnxruntime."""
MEMORY_LIMIT = "session.memory_limit"
DATA_FOLDER = "session.model_external_initializers_file_folder_path"
EXTERNAL_FILE = "session.optimized_model_external_initializers_file_name"
EXTERNAL_SIZE = "session.optimized_model_external_initializers_min_size_in_bytes"


def _limit(given: int | str) -> int:
    """A memory limit in bytes; InvalidArgument where it is none."""
    try:
        number = units.parse(given) if isinstance(given, str) else operator.index(given)
    except (TypeError, ValueError) as error:
        raise errors.InvalidArgument(f"{MEMORY_LIMIT}: {error}") from None
    if number < 0:
        raise errors.InvalidArgument(f"{MEMORY_LIMIT}: {number} is below 0; 0 is no limit")
    return number


def _size(name: str, given: int) -> int:
    """A size of dimensions; InvalidArgument where it is none."""
    if int(given) < 0:
        raise errors.InvalidArgument(f"the size of {name!r} cannot be {given}")
    return int(given)


def _refuse_unknown(options: object, name: str) -> None:
    """Raise AttributeError for an option that there is not, which would have no effect."""
    if any(each.name == name for each in fields(options)):
        return
    from difflib import get_close_matches  # which correct programs do without

    known = [each.name for each in fields(options) if not each.name.startswith("_")]
    near = get_close_matches(name, known, 1, 0.5)
    meant = f"; did you mean {near[0]!r}?" if near else ""
    raise AttributeError(f"{type(options).__name__} has no option {name!r}{meant}")


@record
class RunOptions:
    """What a run is made with."""

    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    only_execute_path_to_fetches: bool = False
    terminate: bool = False
    _entries: dict[str, str] = field(default_factory=dict, repr=False)
    _stops: list[Callable[[], None]] = field(default_factory=list, repr=False, compare=False)
    _adapters: list[Adapter] = field(default_factory=list, repr=False)

    def __setattr__(self, name: str, value: Any) -> None:
        _refuse_unknown(self, name)
        super().__setattr__(name, value)
        if name == "terminate" and value:
            with _terminating:
                for stop in getattr(self, "_stops", ()):
                    stop()

    @contextmanager
    def on_terminate(self, stop: Callable[[], None]) -> Iterator[None]:
        """Within the block, and never after it, have `stop` called once `terminate` is set, by whoever sets it."""
        with _terminating:
            self._stops.append(stop)
            if self.terminate:
                stop()
        try:
            yield
        finally:
            with _terminating:
                self._stops.remove(stop)

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Set an entry by onnxruntime's key; those that nobody knows have no effect."""
        self._entries[key] = value

    def get_run_config_entry(self, key: str) -> str:
        """What was set for a key; RuntimeError if nothing was."""
        if key not in self._entries:
            raise RuntimeError(f"RunOptions does not have configuration with key: {key}")
        return self._entries[key]

    def entry(self, key: str, default: str = "") -> str:
        """What was set for a key, or the default."""
        return self._entries.get(key, default)

    def add_active_adapter(self, adapter: Adapter) -> None:
        """Have runs take an adapter's tensors for the model's initializers of their names."""
        self._adapters.append(adapter)

    def adapted(self, feed: Mapping[str, Any]) -> Mapping[str, Any]:
        """What is fed, with the tensors of active adapters."""
        if isinstance(feed, Mapping):  # whoever takes it refuses others
            for adapter in self._adapters:
                feed = {**adapter.parameters, **feed}
        return feed


@record
class SessionOptions:
    """What a session is made with."""

    enable_cpu_mem_arena: bool = True
    enable_mem_pattern: bool = True
    enable_mem_reuse: bool = True
    enable_profiling: bool = False
    execution_mode: ExecutionMode = ExecutionMode.ORT_SEQUENTIAL
    execution_order: ExecutionOrder = ExecutionOrder.DEFAULT
    graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_ENABLE_ALL
    inter_op_num_threads: int = 0
    intra_op_num_threads: int = 0
    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    memory_limit: int = 0
    """Bytes that the session may hold in weights and intermediate results, 0 for any number. `sardonyx.runtime.budget`
    says what is counted; runs that need more raise RuntimeException before they begin.
    """
    optimized_model_filepath: str = ""
    profile_file_prefix: str = "onnxruntime_profile_"
    use_deterministic_compute: bool = False
    use_per_session_threads: bool = True
    _entries: dict[str, str] = field(default_factory=dict, repr=False)
    _changes: ModelChanges = field(default_factory=ModelChanges, repr=False)
    _providers: list[tuple[str, dict[str, str]]] = field(default_factory=list, repr=False)
    _loading: RunOptions = field(default_factory=RunOptions, repr=False, compare=False)

    # ---- entries

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Set an entry by onnxruntime's key, or one of our own; those that nobody knows have no effect."""
        if key == SAVE_FORMAT and value != "ONNX":
            raise errors.NotImplemented(f"{key}: models are written as 'ONNX' alone, not as {value!r}")
        if key == LOAD_FORMAT and value not in ("ONNX", "ORT"):
            raise errors.InvalidArgument(f"{key}: a model comes as 'ONNX' or 'ORT', not {value!r}")
        if key == "session.set_denormal_as_zero" and value == "1":
            debug.warn_once(f"{key} has no effect here: processors keep subnormal numbers, GPUs may take them as zero")
        if key == MEMORY_LIMIT:
            self.memory_limit = _limit(value)
        if key == DATA_FOLDER:
            self._changes.folder = value
        self._entries[key] = value

    def __setattr__(self, name: str, value: Any) -> None:
        _refuse_unknown(self, name)
        if name == "memory_limit":
            value = _limit(value)
        super().__setattr__(name, value)

    def get_session_config_entry(self, key: str) -> str:
        """What was set for a key; RuntimeError if nothing was."""
        if key not in self._entries:
            raise RuntimeError(f"SessionOptions does not have configuration with key: {key}")
        return self._entries[key]

    def entry(self, key: str, default: str = "") -> str:
        """What was set for a key, or the default."""
        return self._entries.get(key, default)

    def refuse_ort(self, path: str) -> None:
        """Raise NotImplemented where onnxruntime would write its own format, unless `session.save_model_format` says
        otherwise."""
        if path.lower().endswith(".ort") and not self.entry(SAVE_FORMAT):
            raise errors.NotImplemented(f"{path}: models are written as ONNX alone; give a path that ends in .onnx")

    def external_data(self) -> tuple[str, int]:
        """The file for the initializers of the model at `optimized_model_filepath`, "" for none, and from how many
        bytes on they go there; Fail where that is no number."""
        least = self.entry(EXTERNAL_SIZE, "1024")
        if not least.isdecimal():
            raise errors.Fail(f"{EXTERNAL_SIZE}: Failed to parse value: {least!r} is no number of bytes")
        return self.entry(EXTERNAL_FILE), int(least)

    def entries(self) -> dict[str, str]:
        """All that was set."""
        return dict(self._entries)

    # ---- what the session changes in the model

    @property
    def changes(self) -> ModelChanges:
        """What these options change in a model."""
        return self._changes

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Give the dimensions of this name, in all inputs, a size."""
        self._changes.names[name] = _size(name, size)

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int) -> None:
        """Give the free dimensions of inputs that the model denotes so (`DATA_BATCH`) a size."""
        self._changes.denotations[denotation] = _size(denotation, size)

    def add_initializer(self, name: str, ort_value: Any) -> None:
        """Let the initializer of this name be an OrtValue, or an array, of its type and shape."""
        self._changes.initializers[name] = ort_value

    def add_external_initializers(self, names: Sequence[str], ort_values: Sequence[Any]) -> None:
        """Let the initializers of these names be these OrtValues; their data files need not be there.

        A session of a model that has none of a name raises InvalidArgument.
        """
        if len(names) != len(ort_values):
            raise errors.InvalidArgument(f"{len(names)} names and {len(ort_values)} values do not go together")
        self._changes.initializers.update(zip(names, ort_values, strict=True))
        self._changes.wanted.update(names)

    def add_external_initializers_from_files_in_memory(
        self, names: Sequence[str], buffers: Sequence[Any], lengths: Sequence[int]
    ) -> None:
        """Let the model's data files of these names be the first bytes of these buffers."""
        if not len(names) == len(buffers) == len(lengths):
            counts = len(names), len(buffers), len(lengths)
            raise errors.InvalidArgument("{} names, {} buffers and {} lengths do not go together".format(*counts))
        for name, buffer, length in zip(names, buffers, lengths, strict=True):
            self._changes.files[name] = memoryview(buffer).cast("B")[: int(length)]

    def choose_rows(self, output: str, positions: str) -> None:
        """Have an output [B, S, ...] give one row of each entry of the batch, [B, 1, ...], and compute no others.

        `positions` is a new input, int64 [B]: the numbers of the rows. A model without such an output, or older
        than operator set 13, stays as it is.
        """
        self._changes.rows[output] = positions

    # ---- providers

    def add_provider(self, name: str, options: Mapping[str, str]) -> None:
        """Add an execution provider, for sessions that are made without `providers`."""
        self._providers.append((name, dict(options)))

    def add_provider_for_devices(self, devices: Sequence[OrtEpDevice], options: Mapping[str, str]) -> None:
        """Add the execution provider of devices that `get_ep_devices` gave."""
        self._providers += [(name, dict(options)) for name in dict.fromkeys(device.ep_name for device in devices)]

    def set_provider_selection_policy(self, policy: OrtExecutionProviderDevicePolicy) -> None:
        """Have sessions that are made without `providers` take those that a policy prefers."""
        self._providers = [(name, {}) for name in policy.providers()]

    def set_provider_selection_policy_delegate(self, delegate: Callable[..., Sequence[OrtEpDevice]]) -> None:
        """Have sessions that are made without `providers` take the devices that a function chooses.

        It is given the devices that there are, what the model and the run are about, of which nothing is told, and how
        many it may choose.
        """
        from sardonyx.api.devices import get_ep_devices

        self._providers = []
        self.add_provider_for_devices(delegate(get_ep_devices(), {}, {}, MOST_DEVICES)[:MOST_DEVICES], {})

    def has_providers(self) -> bool:
        """Whether any were added."""
        return bool(self._providers)

    def providers(self) -> list[tuple[str, dict[str, str]]] | None:
        """What was added, None if nothing was."""
        return list(self._providers) or None

    def set_ep_context_data_read_func(self, read_func: Callable[..., None], max_data_size: int) -> None:
        """Accepted for compatibility: no model is run that another provider compiled."""

    def clear_ep_context_data_read_func(self) -> None:
        """Accepted for compatibility: no model is run that another provider compiled."""

    # ---- others

    def register_custom_ops_library(self, path: str) -> None:
        """Raises NotImplemented: operators come as Python functions."""
        raise errors.NotImplemented(
            f"{path}: libraries of native code do not run here; declare the operators with @sardonyx.custom_op"
        )

    def set_load_cancellation_flag(self, cancel: bool) -> None:
        """Whether sessions that are being made with these options are to end with ModelLoadCanceled."""
        self._loading.terminate = cancel

    @property
    def loading(self) -> RunOptions:
        """What ends the making of a session."""
        return self._loading


@record(frozen=True)
class NodeArg:
    """An input or output: symbolic sizes are strings, unknown ones None; `type` as `tensor(float)`."""

    name: str
    type: str
    shape: list[int | str | None]

    def __str__(self) -> str:
        return f"NodeArg(name={self.name!r}, type={self.type!r}, shape={self.shape})"
