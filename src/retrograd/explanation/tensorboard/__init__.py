"""What TensorBoard shows of a training: files that tensorboardX writes."""
