"""ONNX operators, implemented by retrograd's operators; one file for each family."""
