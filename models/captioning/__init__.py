"""Captions written for pictures: a language model that learns from text alone (Kiros et al.)."""

DRAWS = 100  # texts drawn for a picture
