"""Problem documents as answers of the service."""

from __future__ import annotations

import httpx

from hasse.service.errors import MEDIA_TYPE, REASONS
from hasse.service.schemas import Problem


def problem(response: httpx.Response, status: int, reason: str) -> Problem:
    """Check that a response is that problem, and return it."""
    assert response.headers["content-type"] == MEDIA_TYPE
    found = Problem.model_validate_json(response.content)
    assert (response.status_code, found.status, found.reason) == (status, status, reason)
    assert found.title == REASONS[reason].title
    assert found.type == f"/docs#{reason}"
    assert found.request_id == response.headers["x-request-id"]
    return found
