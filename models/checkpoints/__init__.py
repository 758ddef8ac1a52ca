"""Checkpoints: the folder of a trained model, read and written without pickle."""
