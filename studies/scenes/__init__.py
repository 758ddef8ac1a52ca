"""Captions that a model of drawn scenes composes of phrases."""
