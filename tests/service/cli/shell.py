"""Run commands as a shell would see them: status, standard output, standard error."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from typer.testing import CliRunner

from hasse.service.cli.app import app
from hasse.service.telemetry.logs import LOGGER
from tests.tiny import TINY

# A training that takes a second, from pictures of 36 pixels.
TINY_TRAINING = (
    *("--backbone", TINY, "--batch-size", "6"),
    *("--set", "dimension=16"),
    *("--set", "image_pooling=average", "--set", "resize=36", "--set", "crop=32"),
    *("--set", "word_dimension=8", "--device", "cpu"),
)


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    status: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one line `error: ...`, which is all that a mistake may print."""
        lines = [line for line in self.err.splitlines() if line.startswith("error: ")]
        assert len(lines) == 1, self.err
        assert "Traceback" not in self.err
        return lines[0]


def hasse(*arguments: object) -> Outcome:
    """Run a command in this process, such as `hasse("lab train", folder)`.

    An exception that is no mistake of the user is raised.
    """
    words = [*str(arguments[0]).split(), *map(str, arguments[1:])] if arguments else []
    handlers = list(LOGGER.handlers)
    signals = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    result = CliRunner().invoke(app, words)
    LOGGER.handlers[:] = handlers  # what it logs to ends with it
    for number, handler in signals.items():  # and so does who hears them
        signal.signal(number, handler)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Outcome(result.exit_code, result.stdout, result.stderr)
