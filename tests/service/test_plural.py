"""Numbers of things, as people read them."""

from __future__ import annotations

from hasse.service.plural import count


def test_count_writes_numbers_and_plurals() -> None:
    assert count(1, "picture") == "1 picture"
    assert count(0, "picture") == "0 pictures"
    assert count(113287, "picture") == "113,287 pictures"
