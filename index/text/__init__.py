"""Text search without a database: folding, queries, spelling, and sources of texts."""
