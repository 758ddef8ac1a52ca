from __future__ import annotations

import pytest

from service.routes.searches import searched


@pytest.mark.parametrize(
    ("method", "path", "route"),
    [
        ("POST", "/search/images", "/search/images"),
        ("POST", "/search/captions", "/search/captions"),
        ("POST", "/entails/batch", "/entails/batch"),
        ("GET", "/diagram", "/diagram"),
        ("GET", "/images/17/diagram", "/images/{image_id}/diagram"),
    ],
)
def test_a_search_is_known_by_its_method_and_path_whatever_id_it_has(
    method: str, path: str, route: str
) -> None:
    assert searched(method.encode(), path.encode()) == route


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/search/images"),
        ("POST", "/diagram"),
        ("POST", "/images"),
        ("GET", "/images/17"),
        ("GET", "/images/17/file"),
        ("GET", "/images/x/diagram"),
        ("GET", "/images/17/diagram/more"),
        ("POST", "/images/17/diagram"),
        ("GET", "/readyz"),
    ],
)
def test_what_needs_no_place_is_no_search(method: str, path: str) -> None:
    assert searched(method.encode(), path.encode()) is None
