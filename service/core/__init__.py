"""The engine: admission, batching, encoding and searching, free of HTTP."""
