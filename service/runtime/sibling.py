"""One of several processes that serve one port, as `service.runtime.supervisor` begins them.

The first line of its standard input is its `Orders`; where that input ends, whoever gave them is
gone, and it stops. Each line that it writes to standard output is a `Report`; what any library
prints goes to standard error.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import IO, TYPE_CHECKING

from pydantic import BaseModel

from service.runtime import logs
from service.runtime.sockets import Listens, ServeError, address_of
from service.settings import Settings

if TYPE_CHECKING:
    from service.core.engine import Engine


class Orders(BaseModel):
    """What a process is to do: serve so, on the socket of that descriptor, by these cores."""

    settings: Settings
    descriptor: int
    cores: list[int]
    listens: Listens


class Report(BaseModel):
    """What a process tells: the lines of its introduction once it serves, or why it ends."""

    serving: list[str] | None = None
    failure: str | None = None


def main() -> int:
    """Serve; return the status with which the process ends."""
    reports = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    orders = Orders.model_validate_json(sys.stdin.readline())
    settings = orders.settings
    logs.configure(settings.log_format, settings.log_level)
    # Before there is any pool of threads: there are as many as these cores run.
    os.sched_setaffinity(0, orders.cores)
    from service.runtime import about
    from service.runtime.server import run

    with socket.socket(fileno=orders.descriptor) as listener:

        def introduce(engine: Engine) -> None:
            _tell(reports, Report(serving=list(about.lines(engine, address_of(listener)))))

        try:
            run(
                settings,
                listener,
                introduce,
                listens=orders.listens,
                lifeline=sys.stdin.fileno(),
            )
        except ServeError as error:
            _tell(reports, Report(failure=str(error)))
            return 1
    return 0


def _tell(reports: IO[str], report: Report) -> None:
    reports.write(report.model_dump_json() + "\n")
    reports.flush()


if __name__ == "__main__":
    sys.exit(main())
