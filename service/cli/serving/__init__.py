"""Commands that serve: serve, demo, key."""
