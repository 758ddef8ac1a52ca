"""Backups of an index: made while it is in use, verified, and restored elsewhere."""
