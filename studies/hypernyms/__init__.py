"""Hypernyms: which concept is a kind of which, learned from a part of WordNet (Vendrov et al.)."""
