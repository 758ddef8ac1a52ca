"""Commands about a library: add, sync, search, like, check, describe, status and others."""
