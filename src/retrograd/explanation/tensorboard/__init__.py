"""TensorBoard logs of a training run: files that tensorboardX writes."""
