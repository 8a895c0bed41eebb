"""Mistakes in sizes, in the compiler, its passes, operators and primitives."""

from __future__ import annotations

from tests.mutations.runner import Mutation

_ALGEBRA = "tests/engine/test_algebra.py"

SIZES = [
    Mutation(
        "an index may be as large as its size",
        "core/sardonyx/sizes/polynomial.py",
        "return high is not None and (size - ONE - high).is_nonnegative(ranges)",
        "return high is not None and (size - high).is_nonnegative(ranges)",
        (_ALGEBRA,),
    ),
    Mutation(
        "the largest remainder is one too small",
        "core/sardonyx/sizes/polynomial.py",
        "high = high_b and high_b - ONE",
        "high = high_b and high_b - constant(2)",
        (_ALGEBRA,),
    ),
    Mutation(
        "a quotient of what is negative is one too large",
        "core/sardonyx/sizes/polynomial.py",
        "return (quotient - ONE, above) if",
        "return (quotient, above) if",
        (_ALGEBRA,),
    ),
    Mutation(
        "the number of a sum does not count for what divides it",
        "core/sardonyx/sizes/polynomial.py",
        "return gcd(most, *(factor for _, factor in self.terms))",
        "return gcd(most, *(factor for atoms, factor in self.terms if atoms))",
        (_ALGEBRA,),
    ),
    Mutation(
        "the larger of two is at least 0 only if both are",
        "core/sardonyx/sizes/polynomial.py",
        'return a or b if name == "max"',
        'return a and b if name == "max"',
        (_ALGEBRA,),
    ),
    Mutation(
        "the smaller of two is at least 0 if one of them is",
        "core/sardonyx/sizes/polynomial.py",
        'else (b if name == "mod" else a and b)',
        'else (b if name == "mod" else a or b)',
        (_ALGEBRA,),
    ),
    Mutation(
        "symbols within functions are not replaced",
        "core/sardonyx/sizes/polynomial.py",
        "elif values.keys().isdisjoint(atom.symbols):",
        "elif values:",
        (_ALGEBRA,),
    ),
    Mutation(
        "a product that divides has no parentheses",
        "core/sardonyx/sizes/polynomial.py",
        'parts[1] = f"({parts[1]})"',
        'parts[1] = f"{parts[1]}"',
        (_ALGEBRA,),
    ),
    Mutation(
        "more than is at least",
        "core/sardonyx/sizes/symbolic.py",
        'return _decide(self - other - 1, ">=")',
        'return _decide(self - other, ">=")',
        (_ALGEBRA,),
    ),
    Mutation(
        "what is never positive is taken for negative",
        "core/sardonyx/sizes/symbolic.py",
        "if (polynomial.scaled(-1) - ONE).is_nonnegative():",
        "if polynomial.scaled(-1).is_nonnegative():",
        (_ALGEBRA,),
    ),
    Mutation(
        "a decision leaves no guard",
        "core/sardonyx/sizes/symbolic.py",
        'return self.facts.setdefault((polynomial, relation), value == 0 if relation == "==" else value >= 0)',
        'return value == 0 if relation == "==" else value >= 0',
        (_ALGEBRA,),
    ),
    Mutation(
        "a guard shows a term with the wrong sign",
        "core/sardonyx/sizes/symbolic.py",
        "[-factor, *term[2:]]",
        "[factor, *term[2:]]",
        (_ALGEBRA,),
    ),
    Mutation(
        "code for sizes divides by 0",
        "core/sardonyx/sizes/sizecode.py",
        "return a // b if b else 0",
        "return a // b",
        (_ALGEBRA,),
    ),
]

COMPILER = [
    Mutation(
        "a value that another device reads need not be written",
        "core/sardonyx/compiler/fuse.py",
        "if any(self.device_of[reader] != device for reader in readers):\n            return True",
        "if any(self.device_of[reader] != device for reader in readers):\n            return False",
        ("tests/compiler/test_fuse.py",),
    ),
    Mutation(
        "what is dear is computed for each reader",
        "core/sardonyx/compiler/fuse.py",
        "dear = len(readers) > 1 and",
        "dear = len(readers) > 99 and",
        ("tests/compiler/test_fuse.py",),
    ),
    Mutation(
        "of loops without lanes NaN is no largest element",
        "core/sardonyx/code/loops.py",
        'better = better | (call("isnan", element) & ~call("isnan", value))',
        'better = better & ~call("isnan", value)',
        ("tests/wasm/test_ladder.py::test_the_place_of_the_largest_in_a_window_is_that_of_the_first_nan",),
    ),
    Mutation(
        "buffers that meet in one step may overlap",
        "core/sardonyx/plans/layout.py",
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
        "core/sardonyx/code/parameters.py",
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
        "core/sardonyx/code/arithmetic.py",
        "quotient = quotient + (((a < 0) != (b < 0)) & (quotient * b != a))",
        "quotient = quotient + 0",
        ("tests/operators/test_scalar.py",),
    ),
    Mutation(
        "a logistic curve ends at a half",
        "core/sardonyx/code/arithmetic.py",
        "np.add(result, 1, out=result)",
        "np.add(result, 2, out=result)",
        ("tests/operators/test_scalar.py",),
    ),
    Mutation(
        "no backend has a function",
        "core/sardonyx/code/scalar.py",
        '    ScalarFunction("erf", 1,',
        '    ScalarFunction("cbrt", 1, FLOAT, cost=10, accuracy=EXACT, numpy=np.cbrt, no_gradient=STEPS),\n'
        '    ScalarFunction("erf", 1,',
        ("tests/compiler/test_scalar_functions.py",),
    ),
    Mutation(
        "the slope of a sine has the wrong sign",
        "core/sardonyx/code/scalar.py",
        '(g * f("cos", x),)',
        '(-g * f("cos", x),)',
        ("tests/compiler/test_scalar_functions.py",),
    ),
    Mutation(
        "a sine is said to be exact",
        "core/sardonyx/code/scalar.py",
        'ScalarFunction("sin", 1, FLOAT, cost=10, accuracy=Accuracy(2.0, 1.0, limits=_ANGLES)',
        'ScalarFunction("sin", 1, FLOAT, cost=10, accuracy=EXACT',
        ("tests/compiler/test_scalar_functions.py",),
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
        "where=(elements == values) | (elements != elements)",
        "where=(elements == values) | (values != values)",
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
