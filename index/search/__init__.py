"""Search: queries, candidates, exact violations, and the proof that the top k are exact."""
