"""Passes over a whole index, and the drawing of the built-in collection."""
