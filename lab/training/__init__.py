"""Training: recipes, batches, losses, lessons, and runs that can be stopped and resumed."""
