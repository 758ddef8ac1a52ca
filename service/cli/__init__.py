"""The command line: `hasse`."""
