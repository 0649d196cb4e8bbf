"""Convolution and its gradients by every algorithm; deformable convolution."""
