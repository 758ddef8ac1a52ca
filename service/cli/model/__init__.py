"""Commands of `hasse lab`: datasets, features, training, evaluation, models and indexes."""
