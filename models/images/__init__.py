"""Picture files: formats, limits, decoding and preprocessing."""
