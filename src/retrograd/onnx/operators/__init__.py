"""What each operator of ONNX computes, by ours; one file for each family."""
