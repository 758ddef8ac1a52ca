"""Benchmarks of models: training, recall, and the tables of the paper."""
