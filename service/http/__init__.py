"""The layers between uvicorn and the routes: connections, middleware, bodies, access keys."""
