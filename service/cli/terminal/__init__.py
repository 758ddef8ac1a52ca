"""What commands share: options, help texts, tables, progress and exits."""
