"""Learn: turn pixels and words into embeddings. Imports nothing from index or service."""
