"""Encoders that learn: networks of pictures and texts in torch, and the libraries they are from."""
