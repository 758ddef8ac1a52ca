"""The folder in which Hasse keeps what belongs to a user and to no collection."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_data_path


def home() -> Path:
    """Return the folder that `HASSE_HOME` names, else the platform's, as `~/.local/share/hasse`."""
    named = os.environ.get("HASSE_HOME")
    return Path(named) if named else user_data_path("hasse", appauthor=False)
