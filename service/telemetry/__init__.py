"""Logs, metrics, stages and traces of a service."""
