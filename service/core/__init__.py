"""The engine: admission, batching, encoding, searching and writing, free of HTTP."""
