"""Options, help texts, tables, progress and exits of all commands."""
