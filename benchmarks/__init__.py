"""Programs that measure, a command each; they print a table and the machine."""
