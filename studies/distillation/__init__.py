"""Distils a small model from a large one."""
