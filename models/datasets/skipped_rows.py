"""Problems with the rows of a collection: all are counted, and the first of each kind listed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

TOO_LARGE = "too large a picture"  # the reason that a setting can lift
LINES_PER_REASON = 20
KINDS = 20  # in a line of counts
_WIDTH = 120


@dataclass(slots=True)
class SkippedRows:
    """Rows that were skipped or changed on import.

    Memory is bounded: a collection of a million missing files keeps `LINES_PER_REASON` lines.

    Attributes:
        lines: "image 17 (dog.jpg): file not found: skipped", in their order.
        by_reason: how often each reason occurred.
        passed_over: number of files of each kind that are not pictures, or excluded. These are no
            problems.
    """

    lines: list[str] = field(default_factory=list)
    by_reason: dict[str, int] = field(default_factory=dict)
    passed_over: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        """Count all problems, also those without a line."""
        return sum(self.by_reason.values())

    @property
    def unlisted(self) -> int:
        """Count the problems without a line."""
        return self.total - len(self.lines)

    def add(self, subject: str, reason: str, outcome: str = "skipped", detail: str = "") -> None:
        """Note one problem; `reason` is one of a few fixed phrases, `detail` is any text."""
        explanation = f"{reason} ({printable(detail)})" if detail else reason
        self.note(reason, f"{printable(subject)}: {explanation}: {outcome}")

    def note(self, reason: str, line: str) -> None:
        """Note one problem whose line is complete."""
        count = self.by_reason[reason] = self.by_reason.get(reason, 0) + 1
        if count <= LINES_PER_REASON:
            self.lines.append(line)

    def report_lines(self) -> list[str]:
        """Return the lines, a line for the unlisted problems, and one for files passed over."""
        lines = list(self.lines)
        if self.unlisted:
            lines.append(f"and {self.unlisted:,} more; in all {self.summary()}")
        if self.passed_over:
            lines.append(f"passed over: {_counts(self.passed_over)}")
        return lines

    def summary(self) -> str:
        """Return all reasons with their counts, the most frequent first, in one line."""
        return _counts(self.by_reason)


def _counts(kinds: Mapping[str, int]) -> str:
    """Return kinds with their counts, the most frequent first; rare kinds are added up."""
    by_count = sorted(kinds.items(), key=lambda item: -item[1])
    shown = [f"{printable(kind)}: {count:,}" for kind, count in by_count[:KINDS]]
    if rest := sum(count for _, count in by_count[KINDS:]):
        shown.append(f"others: {rest:,}")
    return ", ".join(shown)


def printable(text: str) -> str:
    """Make untrusted text printable, on one line of a terminal."""
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[: _WIDTH + 1])
    return shown if len(shown) <= _WIDTH else f"{shown[: _WIDTH - 1]}…"
