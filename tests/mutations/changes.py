"""The mutations, room by room: each is a mistake that somebody could make, and the tests that must tell."""

from __future__ import annotations

from tests.mutations.runner import Mutation

_ALGEBRA = "tests/engine/test_algebra.py"

SIZES = [
    Mutation(
        "an index may be as large as its size",
        "core/sardonyx/polynomial.py",
        "return high is not None and (size - ONE - high).is_nonnegative(ranges)",
        "return high is not None and (size - high).is_nonnegative(ranges)",
        (_ALGEBRA,),
    ),
    Mutation(
        "the largest remainder is one too small",
        "core/sardonyx/polynomial.py",
        "high = high_b and high_b - ONE",
        "high = high_b and high_b - constant(2)",
        (_ALGEBRA,),
    ),
    Mutation(
        "a quotient of what is negative is one too large",
        "core/sardonyx/polynomial.py",
        "return (quotient - ONE, above) if",
        "return (quotient, above) if",
        (_ALGEBRA,),
    ),
    Mutation(
        "the number of a sum does not count for what divides it",
        "core/sardonyx/polynomial.py",
        "return gcd(most, *(factor for _, factor in self.terms))",
        "return gcd(most, *(factor for atoms, factor in self.terms if atoms))",
        (_ALGEBRA,),
    ),
    Mutation(
        "the larger of two is at least 0 only if both are",
        "core/sardonyx/polynomial.py",
        'return a or b if name == "max"',
        'return a and b if name == "max"',
        (_ALGEBRA,),
    ),
    Mutation(
        "the smaller of two is at least 0 if one of them is",
        "core/sardonyx/polynomial.py",
        'else (b if name == "mod" else a and b)',
        'else (b if name == "mod" else a or b)',
        (_ALGEBRA,),
    ),
    Mutation(
        "symbols within functions are not replaced",
        "core/sardonyx/polynomial.py",
        "elif values.keys().isdisjoint(atom.symbols):",
        "elif values:",
        (_ALGEBRA,),
    ),
    Mutation(
        "a product that divides has no parentheses",
        "core/sardonyx/polynomial.py",
        'parts[1] = f"({parts[1]})"',
        'parts[1] = f"{parts[1]}"',
        (_ALGEBRA,),
    ),
    Mutation(
        "more than is at least",
        "core/sardonyx/symbolic.py",
        'return _decide(self - other - 1, ">=")',
        'return _decide(self - other, ">=")',
        (_ALGEBRA,),
    ),
    Mutation(
        "what is never positive is taken for negative",
        "core/sardonyx/symbolic.py",
        "if (polynomial.scaled(-1) - ONE).is_nonnegative():",
        "if polynomial.scaled(-1).is_nonnegative():",
        (_ALGEBRA,),
    ),
    Mutation(
        "a decision leaves no guard",
        "core/sardonyx/symbolic.py",
        'return self.facts.setdefault((polynomial, relation), value == 0 if relation == "==" else value >= 0)',
        'return value == 0 if relation == "==" else value >= 0',
        (_ALGEBRA,),
    ),
    Mutation(
        "a guard shows a term with the wrong sign",
        "core/sardonyx/symbolic.py",
        "[-factor, *term[2:]]",
        "[factor, *term[2:]]",
        (_ALGEBRA,),
    ),
    Mutation(
        "code for sizes divides by 0",
        "core/sardonyx/sizecode.py",
        "return a // b if b else 0",
        "return a // b",
        (_ALGEBRA,),
    ),
]

COMPILER = [
    Mutation(
        "a value that another device reads need not be written",
        "core/sardonyx/compiler/fuse.py",
        "if any(self.device_of[id(reader)] != device for reader in readers):\n            return True",
        "if any(self.device_of[id(reader)] != device for reader in readers):\n            return False",
        ("tests/compiler/test_fuse.py",),
    ),
    Mutation(
        "what is dear is computed for each reader",
        "core/sardonyx/compiler/fuse.py",
        "return COST_OF_A_CALL if equation.params",
        "return 1 if equation.params",
        ("tests/compiler/test_fuse.py",),
    ),
    Mutation(
        "of loops without lanes NaN is no largest element",
        "core/sardonyx/compiler/loops.py",
        'better = better | (call("isnan", element) & ~call("isnan", value))',
        'better = better & ~call("isnan", value)',
        ("tests/wasm/test_ladder.py::test_the_place_of_the_largest_in_a_window_is_that_of_the_first_nan",),
    ),
    Mutation(
        "buffers that meet in one step may overlap",
        "core/sardonyx/compiler/layout.py",
        ".first <= last and first <= other.last]",
        ".first < last and first < other.last]",
        ("tests/engine/test_layout.py",),
    ),
    Mutation(
        "a part that is twice in a whole is stored once",
        "core/sardonyx/compiler/slices.py",
        "sum(x is other for other in concat.inputs) == 1",
        "sum(x is other for other in concat.inputs) >= 1",
        ("tests/webgpu/test_concatenation.py",),
    ),
    Mutation(
        "a dimension of 1 that may grow is read as it is",
        "core/sardonyx/compiler/indices.py",
        "same(size, 1) or (hint(size) == 1 and not same(size, shape[at]))",
        "same(size, 1)",
        ("tests/engine/test_sizes.py",),
    ),
    Mutation(
        "a provider gets nodes of which it can do a part",
        "core/sardonyx/compiler/partition.py",
        "row[k] = row[k] and (k, equation.origin)",
        "row[k] = (k, equation.origin)",
        ("tests/compiler/test_partition.py",),
    ),
    Mutation(
        "weights of a provider with a memory limit may be of any size",
        "core/sardonyx/compiler/partition.py",
        "x.value.nbytes > most for x in equation.inputs",
        "x.value.nbytes < 0 for x in equation.inputs",
        ("tests/engine/test_memory_limit.py",),
    ),
    Mutation(
        "integers of 5 are written into code like smaller ones",
        "core/sardonyx/compiler/sizes.py",
        "abs(number) <= self._literal",
        "abs(number) <= 8 * self._literal",
        ("tests/engine/test_kernels.py",),
    ),
]

PASSES = [
    Mutation(
        "what grows a hundredfold is folded",
        "core/sardonyx/passes/fold.py",
        "GROWTH = 4",
        "GROWTH = 400",
        ("tests/passes/test_fold.py",),
    ),
    Mutation(
        "random numbers are folded",
        "core/sardonyx/passes/fold.py",
        "if next(node.subgraphs(), None) or not is_pure(node):",
        "if next(node.subgraphs(), None):",
        ("tests/passes/test_fold.py",),
    ),
    Mutation(
        "an integer goes by way of a float as it goes directly",
        "core/sardonyx/passes/simplify.py",
        "if source.is_int and between.is_float and target.is_int and not keeps_all(source, target):",
        "if source is None:",
        ("tests/passes/test_simplify.py",),
    ),
    Mutation(
        "a signed integer holds as much as one without a sign",
        "core/sardonyx/passes/simplify.py",
        'bits <= target.bits - (target.kind == "int")',
        "bits <= target.bits",
        ("tests/passes/test_simplify.py",),
    ),
    Mutation(
        "reciprocals of powers of two are exact even where they are subnormal",
        "core/sardonyx/passes/simplify.py",
        " or (2 - exponent < smallest).any()",
        "",
        ("tests/passes/test_simplify.py",),
    ),
    Mutation(
        "Relu is nothing before a Clip from any bound",
        "core/sardonyx/passes/simplify.py",
        "low.reshape(()) >= 0 else",
        "low.reshape(()) >= -9 else",
        ("tests/passes/test_simplify.py",),
    ),
    Mutation(
        "a Pad that cuts becomes part of a convolution",
        "core/sardonyx/passes/affine.py",
        "if min(widths) < 0 or any(",
        "if any(",
        ("tests/passes/test_affine.py",),
    ),
    Mutation(
        "weights of float16 may become infinite",
        "core/sardonyx/passes/affine.py",
        "return all(array is not None and np.isfinite(array).all() for array in arrays)",
        "return all(array is not None for array in arrays)",
        ("tests/passes/test_affine.py",),
    ),
    Mutation(
        "integers by other zero points are the same",
        "core/sardonyx/passes/quantization.py",
        "if zeros[0] is None or zeros[1] is None or (zeros[0] != zeros[1]).any():",
        "if zeros[0] is None or zeros[1] is None:",
        ("tests/passes/test_quantization.py",),
    ),
]

OPERATORS = [
    Mutation(
        "quotients of integers are rounded down",
        "core/sardonyx/scalar.py",
        "quotient = quotient + (((a < 0) != (b < 0)) & (quotient * b != a))",
        "quotient = quotient + 0",
        ("tests/operators/test_scalar.py",),
    ),
    Mutation(
        "a logistic curve ends at a half",
        "core/sardonyx/scalar.py",
        "np.add(result, 1, out=result)",
        "np.add(result, 2, out=result)",
        ("tests/operators/test_scalar.py",),
    ),
    Mutation(
        "a function has no bound",
        "core/sardonyx/scalar.py",
        '("erf", 1, "same", FLOAT, erf),',
        '("erf", 1, "same", FLOAT, erf),\n    ("cbrt", 1, "same", FLOAT, np.cbrt),',
        ("tests/compiler/test_transcendental.py",),
    ),
    Mutation(
        "halves are rounded up where they go down",
        "core/sardonyx/ops/resize.py",
        '"round_prefer_floor": lambda x: p.ceil(x - 0.5)',
        '"round_prefer_floor": lambda x: p.floor(x + 0.5)',
        ("tests/operators/test_resize.py",),
    ),
    Mutation(
        "a window's place is counted without its dilation",
        "core/sardonyx/ops/pooling.py",
        'inside % self.kernel_shape[k] * windows["dilations"][k]',
        "inside % self.kernel_shape[k]",
        ("tests/operators/test_windows.py",),
    ),
    Mutation(
        "the place of NaN in a window is the first one",
        "core/sardonyx/primitives/window.py",
        "where=(found == values) | (found != found)",
        "where=(found == values) | (values != values)",
        ("tests/primitives/test_windows.py::test_reduce_window",),
    ),
    Mutation(
        "a border is never cut",
        "core/sardonyx/primitives/window.py",
        "size - max(0, -b)",
        "size",
        ("tests/primitives/test_windows.py",),
    ),
]

FILES = [
    Mutation(
        "negative numbers are read as large ones",
        "core/sardonyx/serde/wire.py",
        "if value >> 63:",
        "if value >> 64:",
        ("tests/serde/test_wire.py",),
    ),
    Mutation(
        "a number may run past its message",
        "core/sardonyx/serde/wire.py",
        "if pos > end:\n",
        "if pos > end + 9:\n",
        ("tests/serde/test_wire.py",),
    ),
    Mutation(
        "packed numbers lose their highest bits",
        "core/sardonyx/serde/wire.py",
        "(sizes[long] > place + 1) * np.uint64(128)",
        "(sizes[long] > place + 2) * np.uint64(128)",
        ("tests/serde/test_wire.py",),
    ),
    Mutation(
        "NaN differs from itself",
        "core/sardonyx/ir/compare.py",
        "elif one != other and (one == one or other == other):",
        "elif one != other:",
        ("tests/ir/test_compare.py",),
    ),
    Mutation(
        "nodes that are ready come in any order",
        "core/sardonyx/ir/order.py",
        "position = heapq.heappop(ready)",
        "position = ready.pop()",
        ("tests/ir/test_order.py",),
    ),
    Mutation(
        "a name is taken as often as it comes",
        "core/sardonyx/ir/names.py",
        'while any(f"{name}_{number}" in names for names in sight):',
        "while number < 1:",
        ("tests/ir/test_names.py",),
    ),
    Mutation(
        "a section of a bundle is not checked",
        "core/sardonyx/bundle/format.py",
        "if zlib.crc32(data) != checksum:",
        "if checksum < 0:",
        ("tests/engine/test_bundles.py",),
    ),
    Mutation(
        "deflated data may be followed by more",
        "core/sardonyx/bundle/deflated.py",
        " or engine.unused_data:",
        ":",
        ("tests/engine/test_bundles.py",),
    ),
]

RUNTIME = [
    Mutation(
        "the body of a loop runs for the sizes around it of its last run",
        "core/sardonyx/executor.py",
        " or frame.start[1] != outer:",
        ":",
        ("tests/engine/test_control_flow.py",),
    ),
    Mutation(
        "plans pile up",
        "core/sardonyx/executor.py",
        "del self.executors[MOST_PLANS:]",
        "del self.executors[MOST_PLANS * 99 :]",
        ("tests/engine/test_sizes.py",),
    ),
    Mutation(
        "a run within a run leaves no options behind",
        "core/sardonyx/termination.py",
        "_active.options = self._before",
        "_active.options = None",
        ("tests/engine/test_termination.py",),
    ),
    Mutation(
        "whatever is looked up in is a table, and so are the positions",
        "core/sardonyx/streaming.py",
        "if not isinstance(step, plans.Launch) or place:",
        "if not isinstance(step, plans.Launch):",
        ("tests/engine/test_memory_limit.py",),
    ),
    Mutation(
        "what a setup needs meanwhile is not counted",
        "core/sardonyx/weights.py",
        "most = max(most, sum(self._room(plan, devices, number) for number in live))",
        "most = max(most, 0)",
        ("tests/engine/test_setup.py",),
    ),
    Mutation(
        "what a setup needs at any time is needed all the time",
        "core/sardonyx/weights.py",
        "live = {number for number in live if last[number] > k}",
        "live = {number for number in live if last[number] >= 0}",
        ("tests/engine/test_setup.py",),
    ),
    Mutation(
        "an array of another shape is taken for one like the last",
        "core/sardonyx/inputs.py",
        " or array.shape != shape:",
        ":",
        ("tests/engine/test_repeated_calls.py",),
    ),
    Mutation(
        "a string that became a constant keeps the number of its run",
        "core/sardonyx/strings.py",
        "if any(text in self._table for text in self._texts):",
        "if not self._table:",
        ("tests/engine/test_strings.py",),
    ),
]

SESSIONS = [
    Mutation(
        "a size by its denotation is no part of the key of plans",
        "core/sardonyx/options.py",
        "return [sorted(self.names.items()), sorted(self.denotations.items())]",
        "return [sorted(self.names.items())]",
        ("tests/api/test_options.py",),
    ),
    Mutation(
        "a run that is ended before it waits goes on",
        "core/sardonyx/options.py",
        "            if self.terminate:\n                stop()",
        "            if self.terminate:\n                pass",
        ("tests/engine/test_termination.py",),
    ),
    Mutation(
        "integers that a type does not hold are wrapped",
        "core/sardonyx/feeds.py",
        "if want.is_int and (found != array).any():",
        "if want is None:",
        ("tests/engine/test_session.py",),
    ),
    Mutation(
        "an output may be bound to memory of another shape",
        "core/sardonyx/io_binding.py",
        "if list(handle.shape) != value.shape() or handle.element.number",
        "if handle.element.number",
        ("tests/webgpu/test_binding.py",),
    ),
    Mutation(
        "a memory limit is no part of the key of plans",
        "core/sardonyx/plan_cache.py",
        "                    options.memory_limit,\n",
        "",
        ("tests/engine/test_plan_cache.py",),
    ),
    Mutation(
        "a data file that was replaced is not noticed",
        "core/sardonyx/plan_cache.py",
        "if _stat(path) != stat:",
        "if not stat:",
        ("tests/engine/test_plan_cache.py",),
    ),
    Mutation(
        "a damaged entry is used",
        "core/sardonyx/cache.py",
        "if fingerprint(stored[SIZE:]).digest() != stored[:SIZE]:",
        "if not stored[:SIZE]:",
        ("tests/engine/test_plan_cache.py",),
    ),
    Mutation(
        "the most recently used entries go",
        "core/sardonyx/cache.py",
        "key=lambda entry: entry[0].st_mtime, reverse=True)",
        "key=lambda entry: entry[0].st_mtime)",
        ("tests/engine/test_plan_cache.py",),
    ),
]

COMMANDS = [
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

PAGES = [
    Mutation(
        "remainders have the sign of what is divided",
        "web/sardonyx/sizes.js",
        "a - b * Math.floor(a / b)",
        "a % b",
        (_ALGEBRA,),
    ),
    Mutation(
        "a guard that does not hold is not broken",
        "web/sardonyx/sizes.js",
        '(relation === "==" ? value === 0 : value >= 0) !== truth',
        '(relation === "==" ? value === 0 : value > 0) !== truth',
        (_ALGEBRA,),
    ),
    Mutation(
        "ranges that come back are not joined with the next one",
        "web/sardonyx/memory.js",
        "if (this.free[k + 1]?.[0] === end)",
        "if (this.free[k + 1]?.[0] < end)",
        ("tests/web/test_modules.py",),
    ),
    Mutation(
        "a section that is damaged is used",
        "web/sardonyx/bundle.js",
        "if (sum !== checksum || !isRight)",
        "if (!isRight)",
        ("tests/web/test_modules.py",),
    ),
    Mutation(
        "a submission may take any time",
        "web/sardonyx/queue.js",
        "if (!last.dispatches.length || last.cost + cost <= limits.submission)",
        "if (last)",
        ("tests/web/test_modules.py",),
    ),
]

WASM = [
    Mutation(
        "ranges that come back are not joined with the one before",
        "wasm/sardonyx_wasm/hosts/allocator.py",
        "if index and self._free[index - 1][1] == start:",
        "if index and self._free[index - 1][1] == -start:",
        ("tests/wasm/test_hosts.py",),
    ),
    Mutation(
        "an error in another thread is lost",
        "wasm/sardonyx_wasm/crew.py",
        "self._done.put(error)",
        "self._done.put(None)",
        ("tests/wasm/test_crew.py",),
    ),
    Mutation(
        "the place of the largest element is that of the last NaN",
        "wasm/sardonyx_wasm/kernels/accumulator.py",
        'call("and", _BOOL, [call("isnan", k, [element]), known])',
        'call("isnan", k, [element])',
        ("tests/engine/test_kernels.py",),
    ),
    Mutation(
        "integers take tiles, too",
        "wasm/sardonyx_wasm/tiling.py",
        "    if not exact:\n        ways +=",
        "    if True:\n        ways +=",
        ("tests/wasm/test_tiling.py",),
    ),
]

WEBGPU = [
    Mutation(
        "long work is one submission",
        "webgpu_backend/sardonyx_webgpu/queue.py",
        "if k > first and total + factor * seconds > BOUND:",
        "if k > first and total + factor * seconds > 1e9:",
        ("tests/webgpu/test_queue.py",),
    ),
    Mutation(
        "threads that write parts of a word do so one over the other",
        "webgpu_backend/sardonyx_webgpu/bindings.py",
        "return k in self.written and k not in self.fours and self._is_packed(k)",
        "return False",
        ("tests/webgpu/test_conversion.py",),
    ),
    Mutation(
        "NaN is not larger than what is largest",
        "webgpu_backend/sardonyx_webgpu/folding.py",
        'better = better | (call("isnan", a) & ~call("isnan", b))',
        'better = better & ~call("isnan", a)',
        ("tests/engine/test_kernels.py",),
    ),
    Mutation(
        "a kernel of one axis is flat, wherever it stores",
        "webgpu_backend/sardonyx_webgpu/lanes.py",
        "self.is_flat = len(kernel.space) == 1 and self.target_index == [0, [[0, 1]], []]",
        "self.is_flat = len(kernel.space) == 1",
        ("tests/webgpu/test_concatenation.py", "tests/webgpu/test_lanes.py"),
    ),
    Mutation(
        "a grid of many workgroups has no second axis",
        "webgpu_backend/sardonyx_webgpu/grid.py",
        "rows = -(-groups // most)",
        "rows = min(1, groups)",
        ("tests/webgpu/test_program.py",),
    ),
]

MUTATIONS = [
    *SIZES, *COMPILER, *PASSES, *OPERATORS, *FILES, *RUNTIME, *SESSIONS, *COMMANDS, *PAGES, *WASM, *WEBGPU
]  # fmt: skip
