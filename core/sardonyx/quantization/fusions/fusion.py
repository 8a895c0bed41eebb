"""Rules applied to a model in its own operator set, which other tools read on."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx.api.options import SessionOptions
from sardonyx.model.ir import Model
from sardonyx.model.serde.reader import read
from sardonyx.model.serde.writer import write
from sardonyx.passes.downgrade import lower
from sardonyx.passes.journal import Journal
from sardonyx.passes.levels import GraphOptimizationLevel
from sardonyx.passes.pipeline import prepare
from sardonyx.passes.rewrite import FOLD, MERGE, rewrite
from sardonyx.passes.rule import Rule
from sardonyx.quantization.onnx_model import ONNXModel

MICROSOFT = "com.microsoft"


class Fusion:
    """Rules for an ONNXModel, whose message is changed in place.

    `fused_op_type` begins the names of nodes that are made without one.
    """

    fused_op_type = "Fused"
    rules: Sequence[Rule] = ()

    def __init__(self, model: ONNXModel) -> None:
        self.model = model

    def apply(self) -> bool:
        """Apply the rules wherever they can be; whether they could be anywhere."""
        message = self.model.model
        fused = self.fused(read(message.SerializeToString()))
        if fused is not None:
            message.CopyFrom(type(message).FromString(write(fused)))
        return fused is not None

    @classmethod
    def fused(cls, model: Model) -> Model | None:
        """The model with the rules applied, its nodes in the operator sets that it has; None where none could be."""
        journal = Journal((FOLD, MERGE))
        result = prepare(model, SessionOptions(graph_optimization_level=GraphOptimizationLevel.ORT_DISABLE_ALL))
        rewrite(result.graph, cls.rules, journal)
        if not journal.count:
            return None
        cls.settle(result)
        taken = {node.name for node in result.graph.all_nodes()}
        names = (f"{cls.fused_op_type}_fused_{k}" for k in range(len(taken) + len(result.graph.nodes)))
        free = (name for name in names if name not in taken)
        for node in result.graph.all_nodes():
            node.name = node.name or next(free)
        return lower(result, model.opset_imports)

    @classmethod
    def settle(cls, model: Model) -> None:
        """Give what the rules made the form in which onnxruntime's tool writes it; here it has that already."""
