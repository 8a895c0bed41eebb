"""Models that are built, not downloaded, from packages alone: another precision, an opset, a tool of the field.

Each module has `models()`, which builds its whole family, the same each time, as pairs of name and model.
"""
