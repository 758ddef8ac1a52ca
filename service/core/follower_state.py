"""The state of the process that follows folders, in a file that the workers of a service read."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

# Environment variable with the path of the file. Workers inherit it.
STATE = "HASSE_FOLLOWER_STATE"


@dataclass(frozen=True, slots=True)
class FollowerState:
    """Whether the process that follows folders runs, and how often it was restarted."""

    runs: bool
    restarts: int

    @classmethod
    def read(cls) -> FollowerState | None:
        """Return the state of the follower of this service, or None if it has none."""
        path = os.environ.get(STATE)
        try:
            return None if path is None else cls(**json.loads(Path(path).read_text()))
        except (OSError, ValueError):  # the service is stopping
            return None

    def write(self) -> None:
        """Write the state to the file that the workers of this service read."""
        path = Path(os.environ[STATE])
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(asdict(self)))
        partial.replace(path)
