"""Tree ensembles: a thread follows one tree for one row."""

from __future__ import annotations

from sardonyx.code.kernel import Routine
from sardonyx_webgpu.code import Code
from sardonyx_webgpu.extents import call, constant, size
from sardonyx_webgpu.routines.frame import Frame
from sardonyx_webgpu.wgsl import functions


def walk(routine: Routine) -> Code:
    """x, roots, feature, split and next to the leaves [trees, rows]: see `primitives`."""
    (rows, features), (trees,), (nodes,), _, (following,) = routine.inputs
    dtype = routine.reads[0]
    depth = routine.attributes["depth"]["size"]
    is_float, compared = dtype.startswith("float"), ["x", "load_d(node)"]
    values = {
        "FEATURES": features,
        "ROWS": rows,
        "DEPTH": depth,
        "NODES": nodes,
        "NEXT": following,
        "AGREES": "float_at_most(x, load_d(node))" if is_float else functions.apply("le", "bool", dtype, compared),
        "MISSING": functions.apply("isnan", "bool", dtype, ["x"]) if is_float else "false",
    }
    trips = call("add", size(depth), constant(1))
    return Frame(routine).code("trees", [size(trees), size(rows)], trips, **values)
