"""Training: batches, losses, schedules, presets, and runs that go on after a kill."""
