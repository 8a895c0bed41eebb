"""ONNX models as files and as graphs, read and written as they are; what operators mean is not known here."""
