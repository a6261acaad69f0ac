"""Exports a Memory as an ONNX file, or its boxes as annotations."""
