"""Libraries that earlier versions wrote, and what this version makes of them."""
