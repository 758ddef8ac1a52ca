"""Captioned collections: one shape in memory, and a reader for each common format."""

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
