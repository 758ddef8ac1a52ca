"""Commands that serve a collection: serve, demo, cluster, mcp, key."""
