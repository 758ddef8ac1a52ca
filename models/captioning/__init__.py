"""Captions generated for pictures by a language model that learns from text (Kiros et al.)."""

DRAWS = 300  # texts drawn for a picture
