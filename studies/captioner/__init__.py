"""Trains the captioners that write captions for pictures."""
