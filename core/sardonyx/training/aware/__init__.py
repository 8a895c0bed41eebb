"""Quantization-aware training: weights and scales of a quantized model learn to give what the float model gives.

    from sardonyx.training.aware import train_quantized

    better = train_quantized(read("mine.int8.onnx"), read("mine.onnx"), samples)

`rounded.py` puts roundings that pass gradients on in the place of a model's pairs of QuantizeLinear and
DequantizeLinear, `trainer.py` trains, and `written.py` writes integers and scales back: the result is the same graph
with other numbers.
"""

from sardonyx.training.aware.trainer import Plan, train_quantized

__all__ = ["Plan", "train_quantized"]
