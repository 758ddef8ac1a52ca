"""Bounds: compressed points whose violations are never larger than the true ones."""
