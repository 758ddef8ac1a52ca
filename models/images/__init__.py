"""Picture files: formats, limits, decoding, preprocessing and augmentation."""
