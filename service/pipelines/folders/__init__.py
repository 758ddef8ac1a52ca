"""Folders that an index is kept in step with: looking, planning, applying, watching."""
