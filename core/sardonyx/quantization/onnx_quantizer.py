"""The quantizer that writes quantized operators: integers with scales (static), or sums of integers (dynamic).

It goes through the nodes once. `registry.py` says what becomes of each operator.
"""

from __future__ import annotations

from sardonyx.model.ir import Node
from sardonyx.quantization.base_quantizer import LOG
from sardonyx.quantization.enums import QuantizationMode
from sardonyx.quantization.network import MICROSOFT, Network
from sardonyx.quantization.operators.kept import keep
from sardonyx.quantization.quantized_tensors import QuantizedTensors
from sardonyx.quantization.registry import find_operator

__all__ = ["ONNXQuantizer", "QuantizationMode"]


class ONNXQuantizer(QuantizedTensors):
    """Quantized operators in place of others. Without `static`, ranges of activations are found while the model runs.

    `mode` says whether operators give integers with scales (`QLinearOps`) or sums (`IntegerOps`).
    """

    def quantize(self) -> None:
        """Change the network."""
        network = self.network
        if any(node.op_type in ("QuantizeLinear", "DequantizeLinear") for node in network.graph.nodes):
            LOG.warning(
                "Please check if the model is already quantized. Note you don't need to quantize a QAT model. "
                "OnnxRuntime support to run QAT model directly."
            )
        for node in list(network.graph.nodes):
            if self.enable_subgraph_quantization:
                self._quantize_subgraphs(node)
            operator = find_operator(self, node)
            if operator is None:
                keep(self, node)
            else:
                operator.quantize(self, node)
        for value in network.graph.outputs:
            self.restore(value.name)
        network.graph.nodes[:] = self.new_nodes
        if self.parent is not None:
            return
        missing = network.clean()
        if missing:
            raise RuntimeError(
                f"the quantized model would use tensors that nothing makes: {', '.join(sorted(missing))}"
            )
        if any(node.domain == MICROSOFT for node in network.graph.all_nodes()):
            network.model.opset_imports.setdefault(MICROSOFT, 1)

    def _quantize_subgraphs(self, node: Node) -> None:
        for graph in node.subgraphs():
            inner = ONNXQuantizer(
                self._given,
                self.per_channel,
                self.reduce_range,
                self.mode,
                self.static,
                self.weight.number,
                self.activation.number,
                self.tensors_range,
                self.nodes_to_quantize,
                self.nodes_to_exclude,
                self.op_types_to_quantize,
                self.extra_options,
                Network(self.network.model, graph, self.network),
                self,
            )
            inner.quantize()
