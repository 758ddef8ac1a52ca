"""Decides whether files that a scan has not seen are gone, or only out of reach."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from hasse.service.writing.folders.catalog_state import CatalogState
from hasse.service.writing.folders.scan import Scan


class Reach:
    """Folders of an index that are out of reach, so that a missing file there may not be gone.

    Attributes:
        unreachable: folders whose images are not removed, each with the reason, one sentence.
    """

    def __init__(self, state: CatalogState, scan: Scan, *, allow_empty: bool) -> None:
        self._state, self._scan = state, scan
        self.unreachable = dict(self._find_unreachable())
        unreadable = [
            folder for folder in scan.unreadable_folders if folder not in scan.named_folders
        ]
        self._uncertain = unreadable if allow_empty else [*self.unreachable, *unreadable]

    def is_gone(self, path: str, *, moved: bool = False) -> bool:
        """Return whether a file that was not seen is gone; with `moved`, its bytes lie elsewhere.

        `path` is as the catalog stores it.
        """
        file = Path(self._state.locations.absolute(path))
        if file.is_relative_to(self._state.index_folder):  # the index's own pictures
            return False
        if not any(file.is_relative_to(folder) for folder in self._scan.named_folders):
            return moved and not os.path.lexists(file)
        return not any(file.is_relative_to(folder) for folder in self._uncertain)

    def _find_unreachable(self) -> Iterator[tuple[Path, str]]:
        """Yield the folders that may be out of reach, each with the reason.

        Only named folders, and disks that are or were mounted within them, can be out of reach.
        """
        devices_before = {Path(row.path): row.device for row in self._state.folders_before}
        for folder, device in self._devices(devices_before).items():
            reason = self._reason(folder, device, devices_before.get(folder))
            if reason:
                yield (
                    folder,
                    f"the folder {folder} {reason}, so nothing of it is removed: connect its disk, "
                    "or give --allow-empty if its pictures are gone for good",
                )

    def _devices(self, devices_before: dict[Path, int | None]) -> dict[Path, int | None]:
        scan = self._scan
        devices: dict[Path, int | None] = {**scan.named_folders, **scan.mounts}
        for folder, device in devices_before.items():
            around = [
                scan.named_folders[named]
                for named in scan.named_folders
                if folder.is_relative_to(named)
            ]
            if around and device not in (None, *around):  # it was mounted there
                devices.setdefault(folder, _device(folder))
        return devices

    def _reason(self, folder: Path, device: int | None, known_device: int | None) -> str:
        files_before = [path for path in self._state.files if path.startswith(f"{folder}/")]
        if not files_before:
            return ""
        if device is None:
            return "is not there or cannot be read"
        if not self._scan.holds_pictures(folder):
            is_empty = folder in self._scan.named_folders or known_device != device
            return "holds no pictures any more" if is_empty else ""
        is_missing = any(path not in self._scan.files for path in files_before)
        return (
            "is on another device than before"
            if known_device not in (None, device) and is_missing
            else ""
        )


def _device(folder: Path) -> int | None:
    try:
        return folder.stat().st_dev
    except OSError:
        return None
