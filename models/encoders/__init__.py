"""Encoders that turn captions and pictures into points, with their heads and pooling."""
