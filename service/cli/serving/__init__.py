"""Commands that serve a collection: demo, serve, key."""
