"""Hypernyms: what is a kind of what, learned from a part of a hierarchy (Vendrov et al., 3)."""
