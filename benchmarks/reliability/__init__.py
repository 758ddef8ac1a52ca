"""What the service promises under load, faults and time, measured: docs/reliability.md."""
