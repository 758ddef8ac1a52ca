"""Abstraction: what follows from a caption, by rules and WordNet."""
