"""The folder of a user's data that belongs to no collection."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_data_path


def home() -> Path:
    """Return the folder in `HASSE_HOME`, else the platform's, such as `~/.local/share/hasse`."""
    folder = os.environ.get("HASSE_HOME")
    return Path(folder) if folder else user_data_path("hasse", appauthor=False)
