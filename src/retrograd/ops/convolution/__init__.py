"""Convolution, its gradients and its plan; deformable convolution."""
