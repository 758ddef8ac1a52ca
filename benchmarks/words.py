"""Figures as the tables of the benchmarks write them."""

from __future__ import annotations


def megabytes(size: int) -> str:
    """Return a number of bytes."""
    return f"{size / 1e6:,.0f} MB"


def milliseconds(seconds: float) -> str:
    """Return a short time."""
    return f"{seconds * 1e3:,.2f} ms"
