"""Learn: pixels and words become points. Imports nothing of index or service."""
