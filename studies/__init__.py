"""Programs on top of the product: they reproduce tables of papers or make a built-in model."""
