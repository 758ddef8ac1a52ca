"""HTTP protocol that sheds load: searches over capacity get 429 before their body is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from fastapi.routing import APIRoute

from hasse.service.errors import ServiceError
from hasse.service.http.connection import BoundedProtocol, PipelineFullError
from hasse.service.runtime.readiness import Phase
from hasse.service.services import Services


class LoadSheddingProtocol(BoundedProtocol):
    """One connection. Subclasses name the application's services and its search routes."""

    searches: ClassVar[Sequence[APIRoute]]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._refused = False  # the request that is being received
        self._closes_after = False  # the refused request is the last of its connection

    def on_message_begin(self) -> None:
        """Start to receive a head."""
        if self._refused and self.flow.write_paused:  # the client reads no refusal
            raise PipelineFullError
        super().on_message_begin()
        self._refused = False

    def on_headers_complete(self) -> None:
        """Refuse the request or start it."""
        if self._is_idle() and not self.parser.should_upgrade():
            # A browser shows no answer without CORS headers, so pages of other sites are refused
            # by the application.
            is_foreign = self.services.settings.cors_origins and self._has_origin()
            route = None if is_foreign else self._search_route()
            if route is not None and (error := self.services.admission.refusal()) is not None:
                self._progress, self._is_head_new = True, False
                self._refuse(error, route)
                return
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body; of a refused request it is dropped."""
        if self._refused:
            self._progress = True
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        if not self._refused:
            super().on_message_complete()
            return
        self._progress = True
        if self._closes_after:
            self._close()

    def _search_route(self) -> str | None:
        """Return the route of a search, as metrics name it; None for other requests."""
        method, path = self.parser.get_method().decode(), self._path()
        for route in self.searches:
            if method in (route.methods or ()) and route.path_regex.match(path):
                return route.path
        return None

    def _path(self) -> str:
        path = self.url.partition(b"?")[0].decode("ascii", "replace")
        root_path = self.services.settings.root_path
        return path.removeprefix(root_path) if path.startswith(f"{root_path}/") else path

    def _has_origin(self) -> bool:
        return any(name == b"origin" for name, _ in self.headers)

    def _refuse(self, error: ServiceError, route: str) -> None:
        self._refused = True
        self._closes_after = (
            self.services.readiness.phase is Phase.STOPPING
            or self.expect_100_continue
            or not self.parser.should_keep_alive()
        )
        self._answer(
            error,
            route,
            self.parser.get_method().decode(),
            self._path(),
            closes=self._closes_after,
        )
        self._restart_idle_timer()  # so long may the rest of the body take
        if self.expect_100_continue:
            self._close()  # the client sends no body now


def load_shedding(services: Services, searches: Sequence[APIRoute]) -> type[LoadSheddingProtocol]:
    """Return the protocol of one application's connections."""
    return type("Connection", (LoadSheddingProtocol,), {"services": services, "searches": searches})
