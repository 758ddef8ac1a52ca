"""Prints what an index holds and whether it is whole."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hasse.service.cli.terminal.output import one_line
from hasse.service.cli.terminal.table import print_table
from hasse.service.plural import count

if TYPE_CHECKING:
    from hasse.index.info import IndexInfo, SegmentInfo
    from hasse.index.verify import Verification

_SEGMENT_COLUMNS = (
    *("segment", "kind", "rows", "searched", "size", "bounds", "prefilter", "plan", "generation"),
)


def print_size(info: IndexInfo, folder: Path) -> None:
    """Print one line on a new index."""
    typer.echo(
        f"{folder}: {count(info.images, 'image')}, {count(info.captions, 'caption')}, "
        f"{size(info.bytes)}, model {info.model.name}"
    )


def print_verification(
    folder: Path, found: Verification, pictures: Sequence[str], *, as_json: bool
) -> None:
    """Print what was checked and what is wrong; `pictures` are faults of files outside."""
    if as_json:
        more = {"pictures": pictures, "ok": found.ok and not pictures}
        typer.echo(json.dumps(asdict(found) | more, indent=2, default=str))
        return
    for finding in (*found.findings, *pictures):
        typer.echo(one_line(finding))
    verdict = "whole" if found.ok else f"{count(len(found.findings), 'thing')} wrong"
    if pictures:
        verdict += f", {count(len(pictures), 'picture')} missing or changed ('hasse index sync')"
    typer.echo(
        f"{folder}: {verdict}; {count(found.segments, 'segment')}, {count(found.rows, 'row')}, "
        f"{size(found.bytes)}, generation {found.generation}"
    )


def print_info(info: IndexInfo, *, as_json: bool) -> None:
    """Print two tables: the index, and its segments."""
    if as_json:
        typer.echo(json.dumps(asdict(info), indent=2, default=str))
        return
    model = info.model
    print_table(
        ("", ""),
        [
            ("images", f"{info.images:,}"),
            ("captions", f"{info.captions:,}"),
            ("generation", f"{info.generation:,}"),
            ("size on disk", size(info.bytes)),
            ("memory to serve", size(info.resident)),
            ("model", f"{model.name} ({model.score}, {model.dimension} coordinates)"),
            ("fingerprint", model.fingerprint),
            ("checkpoint", model.checkpoint),
        ],
    )
    typer.echo()
    print_table(_SEGMENT_COLUMNS, [_cells(segment) for segment in info.segments])


def size(number: int) -> str:
    """Return a number of bytes as people read it, as in "2.5 MB"."""
    scaled = float(number)
    for unit in ("bytes", "kB", "MB", "GB"):
        if scaled < 1000:
            return f"{scaled:,.0f} {unit}" if unit == "bytes" else f"{scaled:,.1f} {unit}"
        scaled /= 1000
    return f"{scaled:,.1f} TB"


def _cells(segment: SegmentInfo) -> tuple[str, ...]:
    return (
        segment.name,
        segment.kind,
        f"{segment.rows:,}",
        f"{segment.live:,}",
        size(segment.bytes),
        segment.bounds,
        segment.prefilter,
        segment.plan,
        str(segment.generation),
    )
