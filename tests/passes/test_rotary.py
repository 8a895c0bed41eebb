"""Rotary position embeddings in the forms that exporters give them, against onnxruntime's run of what they wrote."""

import numpy as np
import pytest

from sardonyx.passes.journal import Journal
from sardonyx.passes.rewrite import rewrite
from sardonyx.passes.rotary import rotary_embedding, rotary_embedding_of_halves, rotary_embedding_of_pairs
from tests.passes.checking import feeds, graph_of, make_constant, onnxruntime_run, run

RULES = [rotary_embedding, rotary_embedding_of_halves, rotary_embedding_of_pairs]
X = "float32[B,2,S,4] x"
HALVES = """int64[1] z = {0} int64[1] two = {2} int64[1] four = {4} int64[1] last = {3}
            a = Slice(x, z, two, last) b = Slice(x, two, four, last)"""
TURN = f"{HALVES} n = Neg(b) r = Concat<axis = -1>(n, a) l = Mul(x, c) k = Mul(r, s) y = Add(l, k)"
ANGLES = """int64[1] one = {1} e = Concat<axis = -1>(f, f) cb = Cos(e) sb = Sin(e) c = Unsqueeze(cb, one)
            s = Unsqueeze(sb, one)"""
LOOKED_UP = "int64[1] ax1 = {1} cb = Gather(tc, p) sb = Gather(ts, p) c = Unsqueeze(cb, ax1) s = Unsqueeze(sb, ax1)"
PAIRS = """int64[1] z = {0} int64[1] one = {1} int64[1] two = {2} int64[1] end = {9223372036854775807}
           int64[1] last = {3} int64[1] behind = {4} a = Slice(x, z, end, last, two) b = Slice(x, one, end, last, two)
           n = Neg(b) ua = Unsqueeze(a, behind) ub = Unsqueeze(n, behind) j = Concat<axis = -1>(ub, ua) h = Shape(x)
           r = Reshape(j, h) l = Mul(x, c) k = Mul(r, s) y = Add(k, l)"""
LINE = np.arange(40, dtype=np.float32).reshape(10, 4)
TABLES = {"halves": np.concatenate([LINE[:, :2]] * 2, 1), "pairs": np.repeat(LINE[:, :2], 2, 1), "neither": LINE}


def both(inputs, body, tables=None):
    graphs = [graph_of(inputs, body) for _ in range(2)]
    if tables is not None:
        for graph in graphs:
            make_constant(graph, "tc", np.cos(TABLES[tables]))
            make_constant(graph, "ts", np.sin(TABLES[tables]))
    arrays = [abs(array) if array.dtype == np.int64 else array for array in feeds(graphs[0], {"B": 2})]
    rewrite(graphs[0], RULES, Journal())
    np.testing.assert_allclose(run(graphs[0], arrays)[0], onnxruntime_run(graphs[1], arrays)[0], rtol=1e-5, atol=1e-5)
    return [node for node in graphs[0].nodes if node.op_type == "RotaryEmbedding"]


TABLE_INPUTS = f"{X}, int64[B,S] p, float32[10,4] tc, float32[10,4] ts"


@pytest.mark.parametrize(
    ("inputs", "body", "tables", "interleaved"),
    [
        (f"{X}, float32[B,S,2] f", f"{ANGLES} {TURN}", None, 0),
        (f"{X}, float32[1,S,2] f", f"{ANGLES} {TURN}", None, 0),
        (TABLE_INPUTS, f"{LOOKED_UP} {TURN}", "halves", 0),
        (TABLE_INPUTS, f"{LOOKED_UP} {PAIRS}", "pairs", 1),
        (
            f"{X}, float32[B,1,S,2] c, float32[B,1,S,2] s",
            f"""{HALVES} ac = Mul(a, c) bs = Mul(b, s) bc = Mul(b, c) as = Mul(a, s) u = Sub(ac, bs) w = Add(bc, as)
                y = Concat<axis = 3>(u, w)""",
            None,
            0,
        ),
        (
            f"{X}, float32[S,2] c, float32[S,2] s",
            """a, b = Split<axis = -1, num_outputs = 2>(x) ac = Mul(a, c) bs = Mul(s, b) bc = Mul(b, c) as = Mul(a, s)
               u = Sub(ac, bs) w = Add(as, bc) y = Concat<axis = -1>(u, w)""",
            None,
            0,
        ),
    ],
)
def test_what_exporters_spell_out_is_recognised(inputs, body, tables, interleaved):
    (node,) = both(inputs, body, tables)
    assert node.attribute("interleaved", 0) == interleaved


@pytest.mark.parametrize(
    ("inputs", "body", "tables"),
    [
        (TABLE_INPUTS, f"{LOOKED_UP} {TURN}", "neither"),
        (TABLE_INPUTS, f"{LOOKED_UP} {TURN}", "pairs"),
        (TABLE_INPUTS, f"{LOOKED_UP} {PAIRS}", "halves"),
        (f"{X}, float32[B,1,S,4] c, float32[B,1,S,4] s", TURN, None),
        (f"{X}, float32[B,S,2] f", f"{ANGLES} {TURN}".replace("(n, a)", "(a, n)"), None),
        (f"{X.replace('S', '2')}, float32[B,2,2] f", f"{ANGLES} {TURN}".replace("one = {1}", "one = {2}"), None),
    ],
)
def test_what_would_not_be_the_same_stays(inputs, body, tables):
    assert not both(inputs, body, tables)
