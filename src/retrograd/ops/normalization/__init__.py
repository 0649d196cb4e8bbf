"""Normalization operators (batch, instance, layer, group and RMS norm) and softmax."""
