"""Backups of an index: made while it is written, verified, and restored elsewhere."""
