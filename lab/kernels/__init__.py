"""Kernels of trainings on a GPU; each is tested against a plain reference."""
