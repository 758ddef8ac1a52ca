"""Parses JSON strictly: RFC 8259, without the extensions of Python's own parser."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal, InvalidOperation
from typing import Any

from service.errors import given_twice, invalid


def parse_json(body: bytes) -> Any:
    """Parse JSON; raises ServiceError `invalid` for what RFC 8259 does not allow.

    A byte-order mark in front is ignored, as the RFC permits.
    """
    try:
        return json.loads(
            body.decode("utf-8-sig"),
            object_pairs_hook=_unique,
            parse_constant=_not_a_number,
            parse_float=_number,
        )
    except (ValueError, RecursionError):
        raise invalid("body", "this is not JSON in UTF-8") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        counted = Counter(name for name, _ in pairs)
        raise given_twice(next(name for name, times in counted.items() if times > 1))
    for name in found:
        # Half of a surrogate pair is not text; code further in would say so less clearly.
        if not _encodable(name):
            raise invalid("body", "the name of a field is not Unicode text")
    return found


def _number(digits: str) -> float:
    # JSON Schema calls 7.0 an integer. `int(float(digits))` would be wrong for some integers from
    # 2**53 on, and an id would become its neighbour.
    value = float(digits)
    if not value.is_integer():
        return value
    try:
        exact = Decimal(digits)
    except InvalidOperation:  # an exponent too large for Decimal
        return value
    whole = int(exact)
    return whole if whole == exact else value


def _not_a_number(name: str) -> Any:
    raise invalid("body", f"{name} is not JSON")


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
