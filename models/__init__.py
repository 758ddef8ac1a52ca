"""Models: from pixels and words to embeddings. Imports nothing from index or service."""
