"""Options of sessions and runs, with onnxruntime's names and defaults."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any


class GraphOptimizationLevel(IntEnum):
    """How much a session rewrites its model."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(IntEnum):
    """Accepted for compatibility: kernels run in order."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(IntEnum):
    """Accepted for compatibility: kernels run in the order of the plan."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


@dataclass
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
    optimized_model_filepath: str = ""
    profile_file_prefix: str = "onnxruntime_profile_"
    use_deterministic_compute: bool = False
    use_per_session_threads: bool = True
    _entries: dict[str, str] = field(default_factory=dict, repr=False)

    def add_session_config_entry(self, key: str, value: str) -> None:
        self._entries[key] = value

    def entry(self, key: str, default: str = "") -> str:
        """What was set for a key, or the default."""
        return self._entries.get(key, default)

    def entries(self) -> dict[str, str]:
        """All that was set."""
        return dict(self._entries)

    def get_session_config_entry(self, key: str) -> str:
        if key not in self._entries:
            raise RuntimeError(f"the session options have no entry {key!r}")
        return self._entries[key]


_terminating = threading.Lock()


@dataclass
class RunOptions:
    """What a run is made with."""

    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    only_execute_path_to_fetches: bool = False
    terminate: bool = False
    _entries: dict[str, str] = field(default_factory=dict, repr=False)
    _stops: list[Callable[[], None]] = field(default_factory=list, repr=False, compare=False)

    def __setattr__(self, name: str, value: Any) -> None:
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
        self._entries[key] = value

    def get_run_config_entry(self, key: str) -> str:
        if key not in self._entries:
            raise RuntimeError(f"the run options have no entry {key!r}")
        return self._entries[key]


@dataclass(frozen=True)
class NodeArg:
    """An input or output: symbolic sizes are strings, unknown ones None; `type` as `tensor(float)`."""

    name: str
    type: str
    shape: list[int | str | None]


@dataclass(frozen=True)
class ModelMetadata:
    """What a model says of itself."""

    producer_name: str = ""
    graph_name: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = 0
    custom_metadata_map: dict[str, Any] = field(default_factory=dict)
