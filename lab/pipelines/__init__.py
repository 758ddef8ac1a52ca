"""The long work behind `hasse lab`: training, evaluation, and encoding whole datasets."""
