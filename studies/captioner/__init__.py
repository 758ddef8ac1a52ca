"""A language model that writes captions for pictures (Kiros et al., 2014)."""

DRAWS = 300  # texts drawn for a picture
