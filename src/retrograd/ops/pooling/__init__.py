"""Pooling, unpooling and resampling of images."""
