"""Tasks beyond retrieval that use the same order: hypernyms and textual entailment."""
