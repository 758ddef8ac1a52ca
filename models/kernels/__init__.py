"""Compiled kernels for training and encoding; each is tested against a plain reference."""
