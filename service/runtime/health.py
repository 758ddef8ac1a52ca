"""Health check of a running service: `python -m hasse.service.runtime.health`.

Only the standard library, so that a container's health check costs little memory and time.
Exits 0 when `/readyz` answers 200, and 1 with one line that names the answer it got.
"""

from __future__ import annotations

import http.client
import os
import sys
from collections.abc import Callable

TIMEOUT_SECONDS = 5.0


def trouble(host: str, port: int, timeout: float = TIMEOUT_SECONDS) -> str | None:
    """Return what is wrong with a service; None if it is ready."""
    # A service that listens everywhere is reached on the loopback address.
    address = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104
    connection = http.client.HTTPConnection(address, port, timeout=timeout)
    try:
        connection.request("GET", "/readyz")
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return f"no answer from {address}:{port} ({str(error) or type(error).__name__})"
    finally:
        connection.close()
    return None if status == http.HTTPStatus.OK else f"{address}:{port} answers {status}: not ready"


def main(check: Callable[[str, int], str | None] = trouble) -> int:
    """Check the address in HASSE_HOST and HASSE_PORT, as `hasse serve` reads them."""
    fault = check(
        os.environ.get("HASSE_HOST", "127.0.0.1"), int(os.environ.get("HASSE_PORT", "8000"))
    )
    if fault:
        sys.stderr.write(f"error: {fault}\n")
    return 1 if fault else 0


if __name__ == "__main__":
    sys.exit(main())
