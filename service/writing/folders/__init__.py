"""Folders that an index follows: scan them, plan the changes, apply them, watch."""
