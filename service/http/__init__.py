"""HTTP: middleware, bodies, access keys, and what stands between uvicorn and the routes."""
