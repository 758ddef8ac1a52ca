"""Two encoders with a common space as others publish them: ONNX graphs, tokenizer, settings."""
