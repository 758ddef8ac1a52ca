"""`hasse lab`: the commands that make, measure and try models."""
