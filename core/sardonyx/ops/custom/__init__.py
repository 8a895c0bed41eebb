"""Operators of one's own, in Python.

    import sardonyx
    from sardonyx import primitives as p

    @sardonyx.custom_op("my.domain", "Mish")
    def mish(x, *, beta: float = 1.0):
        return x * p.tanh(p.log(1.0 + p.exp(beta * x)))

Such a function is spelled in primitives: it runs on every provider and becomes part of kernels, as ONNX's operators do.
With `host=True` it takes NumPy arrays and is called between launches. Classes of `onnx.reference.op_run.OpRun` are
operators of the host, too: `sardonyx.register(Mish)`.
"""

from sardonyx.ops.custom.function import custom_op
from sardonyx.ops.custom.reference import register
from sardonyx.ops.custom.suggestion import suggestion, unknown

__all__ = ["custom_op", "register", "suggestion", "unknown"]
