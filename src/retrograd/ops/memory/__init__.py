"""Devices, memory layouts and storages of tensors."""
