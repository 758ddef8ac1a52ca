"""Trained models on disk: their folders, checksums, fingerprints and stored weights."""
