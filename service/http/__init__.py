"""Between uvicorn and the routes: connections, middleware, bodies, access keys, lifespan."""
