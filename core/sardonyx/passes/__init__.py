"""Rewriting of ONNX graphs: upgrades, and named rules in levels; a graph stays one, and nothing is lowered here."""
