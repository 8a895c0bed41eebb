"""Packages of others that import onnxruntime, run on it and, by `sardonyx.compat`, on this one.

`python -m tests.packages rapidocr` shows the answers and times of one of them on every side.
"""
