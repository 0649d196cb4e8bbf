"""Convolution, its gradients, its plan, and deformable convolution."""
