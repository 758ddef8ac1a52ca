"""Compiled kernels for exact violations, and the threads that run them."""
