"""Rewriting of ONNX graphs: upgrades, and named rules in levels."""
