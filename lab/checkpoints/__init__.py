"""Models on disk, as torch modules that can learn, and their networks in ONNX's format."""
