"""Segments: immutable folders of points, and how they are written, merged and opened."""
