"""Text search without a database: folding, queries, and which text says what."""
