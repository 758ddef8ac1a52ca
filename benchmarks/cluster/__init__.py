"""A cluster of several nodes on this machine, and what it does under load and when nodes die."""
