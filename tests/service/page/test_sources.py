"""The sizes of a picture that a browser may choose from."""

from __future__ import annotations

from hasse.service.page.sources import srcset


def test_srcset_names_each_size_with_its_width() -> None:
    found = srcset(7, (8000, 6000), ("thumbnail", "medium", "large"), 320)
    assert found == (
        "/images/7/thumbnail 320w, /images/7/preview/medium 1265w, /images/7/preview/large 3326w"
    )


def test_srcset_of_a_small_picture_names_no_width_twice() -> None:
    assert srcset(7, (640, 480), ("medium", "large"), 320) == "/images/7/preview/medium 640w"
    assert srcset(7, (64, 480), ("thumbnail",), 320) == "/images/7/thumbnail 43w"


def test_srcset_without_a_known_size_is_empty() -> None:
    assert srcset(7, (None, 480), ("medium",), 320) == ""
