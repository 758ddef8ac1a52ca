"""The engine: admission, batching, encoding and searching, without HTTP."""
