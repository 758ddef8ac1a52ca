"""Encoders: captions and pictures become points. Pretrained networks, recurrences, heads and pooling."""
