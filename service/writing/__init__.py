"""Pictures into the index: an upload, a folder and a dataset are sources of the same changes."""
