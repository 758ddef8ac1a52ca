"""Finds folders and places of the library by their names, for `--in` and `--near`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hasse.service.cli.terminal.errors import CommandError
from hasse.service.cli.terminal.progress import tell
from hasse.service.plural import count

if TYPE_CHECKING:
    from hasse.index.catalog.overview import Overview
    from hasse.service.settings import Settings

_LISTED = 5  # names in an error


def resolve_names(settings: Settings, fields: dict[str, Any], within: str | None) -> dict[str, Any]:
    """Return fields with the folder `within`, and coordinates for the name of a place.

    A folder is a path, or else one of the library by its name or the end of its path.

    Raises:
        CommandError: no folder or place has the name, or several folders have it.
    """
    if within is not None and Path(within).exists():
        fields = fields | {"path_prefix": f"{str(Path(within).resolve()).rstrip('/')}/"}
        within = None
    near = fields.get("near")
    if within is None and (near is None or _is_near(near)):
        return fields
    overview = _overview(settings)
    if within is not None:
        fields = fields | {"path_prefix": _folder(overview, within)}
    if near is not None and not _is_near(near):
        fields = fields | {"near": _place(overview, near)}
    return fields


def _is_near(text: str) -> bool:
    """Return whether a text has coordinates, or is meant to: places have names with letters."""
    return not any(map(str.isalpha, text))


def _overview(settings: Settings) -> Overview:
    from hasse.index.catalog.overview import read_overview
    from hasse.index.creation import open_catalog

    catalog = open_catalog(settings.index)
    try:
        return read_overview(catalog, settings.index)
    finally:
        catalog.close()


def _folder(overview: Overview, name: str) -> str:
    wanted = f"/{name.strip('/').casefold()}/"
    found = [path for path in overview.folders if f"/{path}".casefold().endswith(wanted)]
    if len(found) == 1:
        tell(f"in {found[0]}, {count(overview.folders[found[0]], 'picture')} of the library")
        return found[0]
    if found:
        raise CommandError(f"several folders are called {name}: {_list(found)}; give more of one")
    outermost = _list(path for path, _ in overview.outermost)
    raise CommandError(
        f"there is no folder {name}, here or in the library"
        + (f", which has {outermost}" if outermost else "")
    )


def _place(overview: Overview, name: str) -> str:
    from hasse.index.text.query import fold
    from hasse.service.core.metadata import coordinates, near

    for place in overview.places:  # those with most pictures first
        if fold(name) in map(fold, place.name.split(", ")):
            position = place.latitude, place.longitude
            tell(f"near {place.name} ({coordinates(*position)}), {count(place.images, 'picture')}")
            return near(*position)
    known = _list(dict.fromkeys(place.name.split(", ")[0] for place in overview.places))
    raise CommandError(
        f"no picture of the library was taken in {name}: "
        + (f"known are {known}" if known else "none has a place")
    )


def _list(names: Iterable[str]) -> str:
    shown = [name for name in names if name]
    return ", ".join(shown[:_LISTED]) + (", ..." if len(shown) > _LISTED else "")
