"""Kernels for training and encoding on CPU and GPU; each is tested against a plain reference."""
