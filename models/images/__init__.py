"""Pictures: decoding, preprocessing, augmentation, and the stores of pixels and features."""
