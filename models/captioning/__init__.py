"""Captions written for pictures: a language model that learns from text alone (Kiros et al.)."""

DRAWS = 300  # texts drawn for a picture
