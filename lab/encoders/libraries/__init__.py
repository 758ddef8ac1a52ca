"""Pretrained encoders by name, `LIBRARY/NAME`: one module for each library."""
