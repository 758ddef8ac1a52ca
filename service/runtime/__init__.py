"""Processes of a service: server, workers, sockets, and work in the background."""
