"""A rule that recognises attention where exporters spelled it out."""

from __future__ import annotations

import numpy as np

from sardonyx.common import dtypes
from sardonyx.common.record import record, replace
from sardonyx.model.ir import Node, Value
from sardonyx.model.ir.build import constant
from sardonyx.passes.causal import is_causal_bias, is_triangle
from sardonyx.passes.checks import array_of, fill_of, integers, is_float, maker, rank
from sardonyx.passes.infer import Inference
from sardonyx.passes.pattern import Uses, op, scalar, variables
from sardonyx.passes.rule import rule
from sardonyx.sizes.symbolic import Size, poly, same

scores, soft, v = variables("scores soft v")

ABSORBS = -1e30
"""A number to which scores in float32 can be added without changing it; float16 has none that it keeps in sums."""

LARGEST = 1 << 20
"""Elements up to which constants are searched for -inf."""


@record(frozen=True)
class Scores:
    """What the scores of an attention are made of: (q k' * scale, capped by softcap), biased."""

    q: Value
    k: Value
    scale: float = 1.0
    softcap: float = 0.0
    bias: Value | None = None
    allowed: Value | None = None
    is_causal: bool = False


def _last(axis: int) -> bool:
    return axis in (-1, 3)


_PLAIN = op.Softmax(scores, axis=_last).once
_WIDE = op.Cast(op.Softmax(op.Cast(scores).once, axis=_last).named("wide").once, to=lambda to: to in (1, 10)).once
_GUARDED = op.Where(op.IsNaN(soft), 0.0, soft).named("guard").once


@rule(op.MatMul(_PLAIN | _WIDE | _GUARDED, v))
def attention(
    scores: Value | None,
    soft: Value | None,
    v: Value,
    wide: Node | None,
    guard: Node | None,
    facts: Inference,
    uses: Uses,
) -> Value | None:
    """MatMul(Softmax(MatMul(q, k') * scale + mask), v) -> Attention(q, k, v, mask), for each head"""
    if guard is not None and soft is not None:
        node = maker(soft, "Softmax")
        if node is None or uses[soft] != 2 or not _last(node.attribute("axis", -1)):
            return None
        scores = node.inputs[0]
    if scores is None or rank(scores) != 4 or not is_float(scores, (dtypes.float32, dtypes.float16)):
        return None
    parts = _read(scores, guard is not None, facts, uses)
    if parts is None:
        return None
    k, v = _shared(parts.k), _shared(v)
    if k.shape is None or v.shape is None or k.shape[1] != v.shape[1]:
        k, v = parts.k, v
    return _fused(replace(parts, k=k), v, wide is not None, facts)


def _fused(parts: Scores, v: Value, wide: bool, facts: Inference) -> Value | None:
    """The output of an Attention node, if the sizes provably are those that Attention requires."""
    q, k = parts.q, parts.k
    if q.shape is None or k.shape is None or v.shape is None or {len(q.shape), len(k.shape), len(v.shape)} != {4}:
        return None
    batch, heads, groups = q.shape[0], q.shape[1], k.shape[1]
    if batch is None or not batch == k.shape[0] == v.shape[0] or groups != v.shape[1]:
        return None
    if not isinstance(heads, int) or not isinstance(groups, int) or heads % groups:
        return None
    mask = parts.allowed or parts.bias
    if mask is not None and not _broadcasts(mask, q, facts):
        return None
    if mask is not None and (mask.shape is None or mask.shape[-2:] != (q.shape[2], k.shape[2]) or None in mask.shape):
        sizes = [constant(np.ones(2, np.int64)), op.Shape(q, start=2, end=3), op.Shape(k, start=2, end=3)]
        mask = op.Expand(mask, op.Concat(*sizes, axis=0))  # a node may not stretch a mask along these axes itself
    more = {"softcap": parts.softcap} if parts.softcap else {}
    more |= {"is_causal": 1} if parts.is_causal else {}
    more |= {"softmax_precision": dtypes.float32.number} if wide else {}
    return op.Attention(q, k, v, mask, scale=parts.scale, **more)


def _broadcasts(mask: Value, q: Value, facts: Inference) -> bool:
    """Whether the axes of a mask before the last are those of q [B, H, S, D], or 1."""
    own, whole = facts.array(mask), facts.array(q)
    if own is None or whole is None or not 2 <= own.rank <= 4:
        return False
    return all(same(size, 1) or _is_cut(size, want) for size, want in zip(own.shape[-2::-1], whole.shape[-2::-1]))


# ---- from the softmax up


def _read(scores: Value, guarded: bool, facts: Inference, uses: Uses) -> Scores | None:
    """What scores are made of, where nothing else uses what is in between."""
    node = maker(scores, "Add", "Where", "Div", "Mul", "MatMul")
    if node is None or uses[scores] != 1:
        return None
    if node.op_type == "Add":
        for inner, mask in (node.inputs, node.inputs[::-1]):
            if inner is not None and mask is not None and (parts := _product(inner, facts, uses)):
                return _biased(parts, mask, guarded, facts)
        for inner, mask in (node.inputs, node.inputs[::-1]):  # GPT-2 hides the future first, then the padding
            if inner is not None and mask is not None and maker(inner, "Where") and uses[inner] == 1:
                parts = _read(inner, True, facts, uses)
                if parts is not None and parts.is_causal and _is_finite(mask):
                    return _both(parts, inner, mask, facts)
        return None
    if node.op_type == "Where":
        return _chosen(node, guarded, facts, uses)
    return _product(scores, facts, uses)


def _biased(parts: Scores, mask: Value, guarded: bool, facts: Inference) -> Scores | None:
    if _covers(mask, parts, facts) and is_causal_bias(mask, facts):
        return replace(parts, is_causal=True)
    if not guarded and not _is_finite(mask):
        return None  # rows of -inf alone are NaN after a softmax, and 0 after an Attention
    return replace(parts, bias=mask) if parts.q.dtype is dtypes.float32 else None


def _covers(mask: Value, parts: Scores, facts: Inference) -> bool:
    """Whether the last two axes of a mask are those of the scores, and the others 1."""
    own, q, k = map(facts.array, (mask, parts.q, parts.k))
    if own is None or q is None or k is None or own.rank < 2 or q.rank != 4 or k.rank != 4:
        return False
    sizes = zip(own.shape[-2:], (q.shape[2], k.shape[2]))
    return all(_is_cut(size, whole) for size, whole in sizes) and all(same(size, 1) for size in own.shape[:-2])


def _is_cut(size: Size, whole: Size) -> bool:
    """Whether a size is the whole size, or `min(whole, n)` with n > 1: where that is smaller, it never broadcasts."""
    if same(size, whole):
        return True
    call = poly(size).terms[0][0][0] if len(poly(size).terms) == 1 and poly(size).terms[0][0] else None
    if isinstance(call, str) or call is None or call.name != "min":
        return False
    limits = [part.constant for part in (call.a, call.b) if part != poly(whole)]
    return len(limits) == 1 and limits[0] is not None and limits[0] > 1


def _chosen(node: Node, guarded: bool, facts: Inference, uses: Uses) -> Scores | None:
    """Read scores that are Where(condition, product, fill) or Where(condition, fill, product)."""
    condition, one, other = node.inputs
    for inner, outer, truth in ((one, other, True), (other, one, False)):
        number = fill_of(outer) if outer is not None and outer.constant and outer.constant.size == 1 else None
        parts = _product(inner, facts, uses) if inner is not None and number is not None else None
        if parts is None or condition is None or number is None:
            continue
        allowed = condition if truth else facts.inferred(op.Not(condition))
        if _covers(condition, parts, facts) and number <= -1e4 and is_triangle(allowed, facts):
            return replace(parts, is_causal=True)
        if guarded and number == -np.inf:
            return replace(parts, allowed=allowed)
        if np.isfinite(number) and number <= ABSORBS and parts.q.dtype is dtypes.float32:
            inside, outside = (constant(np.array(each, np.float32)) for each in ((0, number) if truth else (number, 0)))
            return replace(parts, bias=facts.inferred(op.Where(condition, inside, outside)))
    return None


def _both(parts: Scores, inner: Value, mask: Value, facts: Inference) -> Scores | None:
    """Add a mask to the causal bias that `inner`, a Where, applies."""
    node = inner.producer
    assert node is not None
    numbers = [fill_of(value) for value in node.inputs[1:]]
    if parts.q.dtype is not dtypes.float32 or numbers.count(None) != 1:
        return None
    pair = [constant(np.array(number or 0, np.float32)) for number in numbers]
    hidden = facts.inferred(op.Where(node.inputs[0], *pair))
    low = min(number for number in numbers if number is not None)
    return replace(parts, is_causal=False, bias=facts.inferred(op.Add(hidden, mask))) if low <= ABSORBS else None


def _is_finite(mask: Value) -> bool:
    """Whether a mask can hold -inf only where arithmetic on its inputs overflows."""
    pending, seen = [mask], set()
    while pending:
        value = pending.pop()
        if value in seen or (value.dtype is not None and not value.dtype.is_float):
            continue
        seen.add(value)
        if value.constant is not None:
            array = array_of(value) if value.constant.size <= LARGEST else None
            if array is None or np.isneginf(array).any():
                return False
        elif value.producer is None or value.producer.op_type == "Log":
            return False
        elif (fill := fill_of(value)) is not None:
            if fill == -np.inf:
                return False
        else:
            pending += (each for each in value.producer.inputs if each is not None)
    return True


def _product(value: Value, facts: Inference, uses: Uses) -> Scores | None:
    """MatMul(q, k'), scaled and capped."""
    softcap = 0.0
    outer = _scaling(value) if uses[value] == 1 else None
    if outer is not None and (tanh := maker(outer[0], "Tanh")) is not None and uses[outer[0]] == 1:
        inner = _scaling(tanh.inputs[0]) if tanh.inputs[0] is not None and uses[tanh.inputs[0]] == 1 else None
        if inner is None or not np.isclose(inner[1] * outer[1], 1.0, rtol=1e-3):
            return None
        value, softcap = inner[0], outer[1]
    scale = 1.0
    while uses[value] == 1 and (outer := _scaling(value)) is not None:
        value, scale = outer[0], scale * outer[1]
    node = maker(value, "MatMul")
    if node is None or uses[value] != 1 or node.inputs[0] is None or node.inputs[1] is None:
        return None
    q, by_q = _unscaled(node.inputs[0])
    keys, by_k = _unscaled(node.inputs[1])
    k, by_own = _unscaled(_untransposed(keys, facts))
    return Scores(q, k, scale * by_q * by_k * by_own, softcap)


def _scaling(value: Value) -> tuple[Value, float] | None:
    """The Value and the factor whose product a Value is."""
    node = maker(value, "Mul", "Div")
    if node is None or node.inputs[0] is None or node.inputs[1] is None:
        return None
    number = scalar(node.inputs[1])
    if number is not None:
        if node.op_type == "Div" and not number:
            return None
        return node.inputs[0], 1 / number if node.op_type == "Div" else number
    number = scalar(node.inputs[0]) if node.op_type == "Mul" else None
    return None if number is None else (node.inputs[1], number)


def _unscaled(value: Value) -> tuple[Value, float]:
    multiple = _scaling(value)
    return (value, 1.0) if multiple is None else multiple


def _untransposed(keys: Value, facts: Inference) -> Value:
    """Transpose keys from [B, H, D, T] to [B, H, T, D], undoing an earlier Transpose where there is one."""
    node = maker(keys, "Transpose")
    perm = list(node.attribute("perm") or ()) if node is not None else []
    if len(perm) != 4 or node is None:
        return facts.inferred(op.Transpose(keys, perm=[0, 1, 3, 2]))
    perm = [perm[0], perm[1], perm[3], perm[2]]
    source = node.inputs[0]
    assert source is not None
    if perm == [0, 1, 2, 3]:
        return source
    return facts.inferred(op.Transpose(source, perm=perm))


def _shared(value: Value) -> Value:
    """The source [B, G, T, D] if a Value is Reshape(Expand(Unsqueeze(source))), each head repeated; else the Value."""
    reshape = maker(value, "Reshape")
    expand = maker(reshape.inputs[0], "Expand") if reshape is not None else None
    unsqueeze = maker(expand.inputs[0], "Unsqueeze") if expand is not None else None
    if unsqueeze is None or expand is None or integers(unsqueeze.inputs[1]) != [2]:
        return value
    source = unsqueeze.inputs[0]
    thin, thick = unsqueeze.outputs[0].shape, expand.outputs[0].shape
    if source is None or rank(source) != 4 or thin is None or thick is None or value.shape is None or len(thick) != 5:
        return value
    groups, times, heads = thick[1], thick[2], value.shape[1]
    others = all(thin[axis] == thick[axis] and thin[axis] is not None for axis in (0, 1, 3, 4))
    merges = len(value.shape) == 4 and value.shape[2:] == thick[3:] and value.shape[0] == thick[0]
    if not others or not merges or not all(isinstance(size, int) for size in (groups, times, heads)):
        return value
    return source if groups * times == heads else value  # type: ignore[operator]


RULES = [attention]
