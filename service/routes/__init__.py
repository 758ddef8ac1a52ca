"""Routes of the API, and the formats that only they write: exports, feeds, tools for agents."""
