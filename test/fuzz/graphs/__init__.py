"""Random valid graphs of ONNX, whole, against onnxruntime: see __main__.py."""
