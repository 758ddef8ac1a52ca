"""Captioned collections: one in-memory shape, and a reader for each format people have."""

from hasse.models.datasets.dataset import (
    Caption,
    Dataset,
    DatasetError,
    Image,
    fingerprint,
    load,
    save,
)

__all__ = ["Caption", "Dataset", "DatasetError", "Image", "fingerprint", "load", "save"]
