"""A Memory as an ONNX file."""
