"""Small models that the engine's tests share, in ONNX's text form."""

from __future__ import annotations

import onnx.parser

HEADER = '<ir_version: 10, opset_import: ["" : 21]>\n'


def model(text: str) -> bytes:
    """The bytes of the model that a graph in text form makes."""
    return bytes(onnx.parser.parse_model(HEADER + text).SerializeToString())


CHAIN = """
g (float[N, 4] x) => (float[N, 4] y) {
  two = Constant <value_float = 2.0> ()
  a = Mul (x, two)
  b = Tanh (a)
  c = Add (b, x)
  y = Relu (c)
}
"""

CONTROL_FLOW = """
g (float[N, 4] x, int64 n, bool c)
    => (float[M, 4] y, int64[R, K] nz, float[T, N, 4] scan, float[P, 4] grown, float[N, 4] chosen)
{
  zero = Constant <value_float = 0.0> ()
  mask = Greater (x, zero)
  nz = NonZero (mask)
  first = Constant <value_ints = [0]> ()
  rows = Gather <axis = 0> (nz, first)
  flat = Squeeze (rows, first)
  y = Gather <axis = 0> (x, flat)
  last, grown, scan = Loop (n, c, x, x) <body = body (int64 i, bool going, float[N, 4] a, float[Q, 4] g)
      => (bool on, float[N, 4] doubled, float[S, 4] longer, float[N, 4] slice) {
    two = Constant <value_float = 2.0> ()
    doubled = Mul (a, two)
    slice = Add (doubled, x)
    longer = Concat <axis = 0> (g, x)
    limit = Constant <value_float = 100.0> ()
    top = ReduceMax <keepdims = 0> (doubled)
    on = Less (top, limit)
  }>
  chosen = If (c) <
    then_branch = then () => (float[N, 4] t) { t = Relu (x) },
    else_branch = other () => (float[N, 4] e) { m = Neg (x)  e = Add (m, last) }
  >
}
"""
"""NonZero, Loop (carrying a tensor that grows, stopping by itself) and If in the middle of a graph."""
