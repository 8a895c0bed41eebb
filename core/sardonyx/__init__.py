"""Sardonyx: ONNX models in browsers, on boards and on desktops."""
