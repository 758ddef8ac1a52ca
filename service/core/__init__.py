"""The engine: admission, batching, encoding, searching and writing, without HTTP."""
