"""A heap of the best hits: the worst hit, by (violation, id), is at its root."""

from __future__ import annotations

from typing import Any

from hasse.index.kernels.compiling import kernel


@kernel
def _is_worse(violations: Any, ids: Any, at: int, other: int) -> Any:
    return violations[at] > violations[other] or (
        violations[at] == violations[other] and ids[at] > ids[other]
    )


@kernel
def _sift_down(violations: Any, ids: Any, count: int) -> None:
    at = 0
    while True:
        worst = at
        for child in (2 * at + 1, 2 * at + 2):
            if child < count and _is_worse(violations, ids, child, worst):
                worst = child
        if worst == at:
            return
        violations[at], violations[worst] = violations[worst], violations[at]
        ids[at], ids[worst] = ids[worst], ids[at]
        at = worst


@kernel
def push(violations: Any, ids: Any, violation: float, id_: int) -> None:
    """Replace the worst hit if the new one is better."""
    if violation < violations[0] or (violation == violations[0] and id_ < ids[0]):
        violations[0], ids[0] = violation, id_
        _sift_down(violations, ids, violations.shape[0])


@kernel
def sort(violations: Any, ids: Any) -> None:
    """Sort a heap by (violation, id)."""
    for last in range(violations.shape[0] - 1, 0, -1):
        violations[0], violations[last] = violations[last], violations[0]
        ids[0], ids[last] = ids[last], ids[0]
        _sift_down(violations, ids, last)
