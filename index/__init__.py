"""Remember: points become segments, a catalog and exact search over violations."""
