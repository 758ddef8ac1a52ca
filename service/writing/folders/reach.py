"""Whether files that a scan has not seen are gone, or only out of reach."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from hasse.service.writing.folders.catalogued import Catalogued
from hasse.service.writing.folders.scan import Scan


class Reach:
    """What may be removed of the files of an index after a scan.

    Attributes:
        reasons: why nothing of a folder is removed, one sentence each, by folder.
    """

    def __init__(self, held: Catalogued, scan: Scan, *, allow_empty: bool) -> None:
        self._held, self._scan = held, scan
        self.reasons = dict(self._away())
        unsure = [place for place in scan.unknown if place not in scan.named]
        self._unsure = unsure if allow_empty else [*self.reasons, *unsure]

    def is_gone(self, path: str, *, moved: bool = False) -> bool:
        """Tell whether a file that was not seen is gone; with `moved`, its bytes lie elsewhere.

        `path` is that of the catalog.
        """
        place = Path(self._held.locations.absolute(path))
        if place.is_relative_to(self._held.index_folder):  # the index's own pictures
            return False
        if not any(place.is_relative_to(folder) for folder in self._scan.named):
            return moved and not os.path.lexists(place)
        return not any(place.is_relative_to(folder) for folder in self._unsure)

    def _away(self) -> Iterator[tuple[Path, str]]:
        """Yield the folders that may be out of reach, and why.

        They are the named folders, and the disks that are or were mounted within them.
        """
        before = {Path(row.path): row.device for row in self._held.folders_before}
        for folder, device in self._devices(before).items():
            why = self._why(folder, device, before.get(folder))
            if why:
                yield (
                    folder,
                    f"the folder {folder} {why}, so nothing of it is removed: connect its disk, or "
                    "give --allow-empty if its pictures are gone for good",
                )

    def _devices(self, before: dict[Path, int | None]) -> dict[Path, int | None]:
        scan = self._scan
        devices: dict[Path, int | None] = {**scan.named, **scan.mounts}
        for folder, device in before.items():
            around = [scan.named[named] for named in scan.named if folder.is_relative_to(named)]
            if around and device not in (None, *around):  # it was mounted there
                devices.setdefault(folder, _device(folder))
        return devices

    def _why(self, folder: Path, device: int | None, known: int | None) -> str:
        below = [path for path in self._held.files if path.startswith(f"{folder}/")]
        if not below:
            return ""
        if device is None:
            return "is not there or cannot be read"
        if not self._scan.holds_pictures(folder):
            empty = folder in self._scan.named or known != device
            return "holds no pictures any more" if empty else ""
        gone = any(path not in self._scan.files for path in below)
        return "is on another device than before" if known not in (None, device) and gone else ""


def _device(folder: Path) -> int | None:
    try:
        return folder.stat().st_dev
    except OSError:
        return None
