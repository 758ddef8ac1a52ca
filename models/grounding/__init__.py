"""Coordinates that stand for things: a classifier's evidence, and the demands of texts."""
