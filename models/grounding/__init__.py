"""Coordinates that stand for things: what a classifier sees, and what a text says is there."""
