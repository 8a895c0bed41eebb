"""Mistakes in what reads and writes files, runs plans, and faces users."""

from __future__ import annotations

from tests.mutations.runner import Mutation

FILES = [
    Mutation(
        "negative numbers are read as large ones",
        "core/sardonyx/model/serde/wire.py",
        "if value >> 63:",
        "if value >> 64:",
        ("tests/serde/test_wire.py",),
    ),
    Mutation(
        "a number may run past its message",
        "core/sardonyx/model/serde/wire.py",
        "if pos > end:\n",
        "if pos > end + 9:\n",
        ("tests/serde/test_wire.py",),
    ),
    Mutation(
        "packed numbers lose their highest bits",
        "core/sardonyx/model/serde/wire.py",
        "(sizes[long] > place + 1) * np.uint64(128)",
        "(sizes[long] > place + 2) * np.uint64(128)",
        ("tests/serde/test_wire.py",),
    ),
    Mutation(
        "NaN differs from itself",
        "core/sardonyx/model/ir/compare.py",
        "elif one != other and (one == one or other == other):",
        "elif one != other:",
        ("tests/ir/test_compare.py",),
    ),
    Mutation(
        "nodes that are ready come in any order",
        "core/sardonyx/model/ir/order.py",
        "position = heapq.heappop(ready)",
        "position = ready.pop()",
        ("tests/ir/test_order.py",),
    ),
    Mutation(
        "a name is taken as often as it comes",
        "core/sardonyx/model/ir/names.py",
        'while any(f"{name}_{number}" in names for names in sight):',
        "while number < 1:",
        ("tests/ir/test_names.py",),
    ),
    Mutation(
        "a section of a bundle is not checked",
        "core/sardonyx/plans/bundle/format.py",
        "if zlib.crc32(data) != checksum:",
        "if checksum < 0:",
        ("tests/engine/test_bundles.py",),
    ),
    Mutation(
        "deflated data may be followed by more",
        "core/sardonyx/plans/bundle/deflated.py",
        " or engine.unused_data:",
        ":",
        ("tests/engine/test_bundles.py",),
    ),
]

RUNTIME = [
    Mutation(
        "the body of a loop runs for the sizes around it of its last run",
        "core/sardonyx/runtime/executor.py",
        " or frame.start[1] != outer:",
        ":",
        ("tests/engine/test_control_flow.py",),
    ),
    Mutation(
        "plans pile up",
        "core/sardonyx/runtime/executor.py",
        "del self.executors[MOST_PLANS:]",
        "del self.executors[MOST_PLANS * 99 :]",
        ("tests/engine/test_sizes.py",),
    ),
    Mutation(
        "a run within a run leaves no options behind",
        "core/sardonyx/common/scoped.py",
        "self._scoped.value = self._before",
        "self._scoped.value = None",
        ("tests/engine/test_termination.py",),
    ),
    Mutation(
        "whatever is looked up in is a table, and so are the positions",
        "core/sardonyx/runtime/streaming.py",
        "if not isinstance(step, plans.Launch) or place:",
        "if not isinstance(step, plans.Launch):",
        ("tests/engine/test_memory_limit.py",),
    ),
    Mutation(
        "what a setup needs meanwhile is not counted",
        "core/sardonyx/runtime/weights.py",
        "most = max(most, sum(self._room(plan, devices, number) for number in live))",
        "most = max(most, 0)",
        ("tests/engine/test_setup.py",),
    ),
    Mutation(
        "what a setup needs at any time is needed all the time",
        "core/sardonyx/runtime/weights.py",
        "live = {number for number in live if last[number] > k}",
        "live = {number for number in live if last[number] >= 0}",
        ("tests/engine/test_setup.py",),
    ),
    Mutation(
        "an array of another shape is taken for one like the last",
        "core/sardonyx/runtime/inputs.py",
        " or array.shape != shape:",
        ":",
        ("tests/engine/test_repeated_calls.py",),
    ),
    Mutation(
        "a string that became a constant keeps the number of its run",
        "core/sardonyx/common/strings.py",
        "if any(text in self._table for text in self._texts):",
        "if not self._table:",
        ("tests/engine/test_strings.py",),
    ),
]

SESSIONS = [
    Mutation(
        "a size by its denotation is no part of the key of plans",
        "core/sardonyx/passes/changes.py",
        "sorted(self.denotations.items()), sorted(self.rows.items())]",
        "sorted(self.rows.items())]",
        ("tests/api/test_options.py",),
    ),
    Mutation(
        "a run that is ended before it waits goes on",
        "core/sardonyx/api/options.py",
        "            if self.terminate:\n                stop()",
        "            if self.terminate:\n                pass",
        ("tests/engine/test_termination.py",),
    ),
    Mutation(
        "integers that a type does not hold are wrapped",
        "core/sardonyx/api/feeds.py",
        "if want.is_int and (converted != array).any():",
        "if want is None:",
        ("tests/engine/test_session.py",),
    ),
    Mutation(
        "an output may be bound to memory of another shape",
        "core/sardonyx/api/outputs.py",
        "if list(handle.shape) != value.shape() or handle.element.number",
        "if handle.element.number",
        ("tests/webgpu/test_binding.py",),
    ),
    Mutation(
        "a memory limit is no part of the key of plans",
        "core/sardonyx/plans/plan_cache.py",
        "                    options.memory_limit,\n",
        "",
        ("tests/engine/test_plan_cache.py",),
    ),
    Mutation(
        "a data file that was replaced is not noticed",
        "core/sardonyx/plans/plan_cache.py",
        "if _stat(path) != stat:",
        "if not stat:",
        ("tests/engine/test_plan_cache.py",),
    ),
    Mutation(
        "a damaged entry is used",
        "core/sardonyx/common/cache.py",
        "if fingerprint(stored[SIZE:]).digest() != stored[:SIZE]:",
        "if not stored[:SIZE]:",
        ("tests/engine/test_plan_cache.py",),
    ),
    Mutation(
        "what other sources have made is taken",
        "core/sardonyx/common/sources.py",
        "if any(_stamp(path) != stamp for path, stamp in stamps.items()):",
        "if not stamps:",
        ("tests/engine/test_sources.py",),
    ),
    Mutation(
        "the code of an earlier source is loaded",
        "core/sardonyx/common/bytecode.py",
        "if status and _stamp(status) == stamp:",
        "if status:",
        ("tests/engine/test_bytecode.py",),
    ),
    Mutation(
        "the most recently used entries go",
        "core/sardonyx/common/cache.py",
        "key=lambda entry: entry[0].st_mtime, reverse=True)",
        "key=lambda entry: entry[0].st_mtime)",
        ("tests/engine/test_plan_cache.py",),
    ),
]

COMMANDS = [
    Mutation(
        "a bundle is served that is older than its model",
        "core/sardonyx/cli/serving.py",
        "if made is None or before != changed:",
        "if made is None:",
        ("tests/cli/test_serving.py",),
    ),
    Mutation(
        "chunks of odd length have no padding",
        "core/sardonyx/cli/wav.py",
        "position += 8 + size + size % 2",
        "position += 8 + size",
        ("tests/cli/test_wav.py",),
    ),
    Mutation(
        "transparent pixels are black",
        "core/sardonyx/cli/pictures.py",
        "opaque = pictures.on_white(pixels)\n    if wanted",
        "opaque = pixels[:, :, :3]\n    if wanted",
        ("tests/cli/test_run.py",),
    ),
    Mutation(
        "control characters in names reach the terminal",
        "core/sardonyx/cli/text.py",
        "return text if text.isprintable() else",
        "return text if text else",
        ("tests/cli/test_screen.py",),
    ),
    Mutation(
        "the smallest entries are the top ones",
        "core/sardonyx/cli/results.py",
        "np.argsort(-row",
        "np.argsort(row",
        ("tests/cli/test_run.py",),
    ),
]
