"""Additions and removals: one queue, whose batches are each one change of the index."""
