"""The running process: start, stop, readiness, logs, metrics and sockets."""
