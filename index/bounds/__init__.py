"""Bounds: compressed points that give lower bounds on violations."""
