"""Compiled kernels for exact violations, and the threads they run on."""
