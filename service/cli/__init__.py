"""The command line: `hasse`."""

from hasse.service.cli.app import app, main

__all__ = ["app", "main"]
