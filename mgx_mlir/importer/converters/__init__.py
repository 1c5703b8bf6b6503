"""Converters of ONNX operators, by topic. Each module is found by its place in this folder."""
