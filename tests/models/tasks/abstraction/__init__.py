"""Tests of `models.tasks.abstraction`."""
