"""Prints what an index holds and whether it is whole."""

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
    """Print one line on a new index."""
    typer.echo(
        f"{folder}: {count(info.images, 'image')}, {count(info.captions, 'caption')}, "
        f"{size(info.bytes)}, model {info.model.name}"
    )


def print_status(found: Mapping[str, Any]) -> None:
    """Print what a library holds, and what differs in its folders."""
    print_table(
        ("", ""),
        [
            ("library", found["library"]),
            ("pictures", f"{found['pictures']:,}"),
            ("captions", f"{found['captions']:,}"),
            ("size", size(found["bytes"])),
            ("model", found["model"]),
        ],
    )
    folders = found["folders"]
    if folders:
        typer.echo()
        rows = [
            (one["path"], f"{one['pictures']:,}", "" if one["present"] else "not there")
            for one in folders
        ]
        print_table(("folder", "pictures", ""), rows)
    differing = [f"{found[what]:,} {what}" for what in ("new", "changed", "gone") if found[what]]
    typer.echo()
    if differing:
        typer.echo(f"files: {', '.join(differing)}; 'hasse sync' brings them in step")
    elif folders:
        typer.echo("nothing new, changed or gone")
    if found["text_read"]:
        left = found["pictures"] - found["text_read"]
        rest = f"; {left:,} are left, 'hasse ocr' reads them" if left else ""
        typer.echo(f"text was looked for in {count(found['text_read'], 'picture')}{rest}")
    if found["unreadable"]:
        typer.echo(f"{count(found['unreadable'], 'file')} cannot be read as pictures")


def print_verification(checked: Mapping[str, Any]) -> None:
    """Print what was checked and what is wrong."""
    findings, pictures = checked["findings"], checked["pictures"]
    for finding in (*findings, *pictures):
        typer.echo(one_line(finding))
    verdict = f"{count(len(findings), 'thing')} wrong" if findings else "whole"
    if pictures:
        verdict += f", {count(len(pictures), 'picture')} missing or changed ('hasse sync')"
    typer.echo(
        f"{verdict}; {count(checked['segments'], 'segment')}, {count(checked['rows'], 'row')}, "
        f"{size(checked['bytes'])}"
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
