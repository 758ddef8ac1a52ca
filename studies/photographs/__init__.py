"""Makes the built-in model of photographs: texts, classes and chains that it learns from."""
