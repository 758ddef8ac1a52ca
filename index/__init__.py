"""The index: segments of points, a catalog, and exact search over violations."""
