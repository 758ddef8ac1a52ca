"""Captions generated for pictures, by a language model (Kiros et al.) or from phrases."""

DRAWS = 300  # texts drawn for a picture
