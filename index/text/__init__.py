"""Text search without a database: folding, queries, and sources of texts."""
