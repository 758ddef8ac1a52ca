"""Pipelines behind commands: indexing, training and evaluation of whole datasets."""
