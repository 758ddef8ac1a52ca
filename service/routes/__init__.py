"""Routes of the API: questions, the collection, writes, operations, and the page at /docs."""
