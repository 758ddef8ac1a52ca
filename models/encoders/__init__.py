"""Encoders of images and captions: backbones, heads, pooling, and hubness correction."""
