"""Prints the contents of an index, and the result of its verification."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from hasse.service.cli.terminal.output import one_line
from hasse.service.cli.terminal.table import print_table
from hasse.service.plural import count

if TYPE_CHECKING:
    from hasse.index.info import IndexInfo, SegmentInfo

_SEGMENT_COLUMNS = (
    *("segment", "kind", "rows", "searched", "size", "bounds", "prefilter", "plan", "generation"),
)


def print_size(info: IndexInfo, folder: Path) -> None:
    """Print the size of a new index in one line."""
    typer.echo(
        f"{folder}: {count(info.images, 'image')}, {count(info.captions, 'caption')}, "
        f"{size(info.bytes)}, model {info.model.name}"
    )


def print_status(status: Mapping[str, Any]) -> None:
    """Print the contents of a library, and how its folders differ from them."""
    print_table(
        ("", ""),
        [
            ("library", status["library"]),
            ("pictures", f"{status['pictures']:,}"),
            ("captions", f"{status['captions']:,}"),
            ("size", size(status["bytes"])),
            ("model", status["model"]),
        ],
    )
    folders = status["folders"]
    if folders:
        typer.echo()
        rows = [
            (folder["path"], f"{folder['pictures']:,}", "" if folder["present"] else "not there")
            for folder in folders
        ]
        print_table(("folder", "pictures", ""), rows)
    changes = [f"{status[kind]:,} {kind}" for kind in ("new", "changed", "gone") if status[kind]]
    typer.echo()
    if changes:
        typer.echo(f"files: {', '.join(changes)}; 'hasse sync' updates the library")
    elif folders:
        typer.echo("nothing new, changed or gone")
    if status["text_read"]:
        left = status["pictures"] - status["text_read"]
        rest = f"; {left:,} are left, 'hasse ocr' reads them" if left else ""
        typer.echo(f"text was looked for in {count(status['text_read'], 'picture')}{rest}")
    if status["unreadable"]:
        typer.echo(f"{count(status['unreadable'], 'file')} cannot be read as pictures")


def print_verification(verification: Mapping[str, Any]) -> None:
    """Print the findings of a verification, and how much was checked."""
    findings, pictures = verification["findings"], verification["pictures"]
    for finding in (*findings, *pictures):
        typer.echo(one_line(finding))
    verdict = f"{count(len(findings), 'thing')} wrong" if findings else "whole"
    if pictures:
        verdict += f", {count(len(pictures), 'picture')} missing or changed ('hasse sync')"
    segments, rows = verification["segments"], verification["rows"]
    typer.echo(
        f"{verdict}; {count(segments, 'segment')}, {count(rows, 'row')}, "
        f"{size(verification['bytes'])}"
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
    """Return a number of bytes in a readable unit, such as "2.5 MB"."""
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
