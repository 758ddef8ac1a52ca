"""Captions generated for pictures."""
