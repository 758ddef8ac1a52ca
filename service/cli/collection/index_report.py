"""Prints the contents of a library, and the result of its verification."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from hasse.service.cli.terminal.output import one_line
from hasse.service.cli.terminal.table import print_table
from hasse.service.plural import count


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
    elif folders and not status["out_of_reach"]:
        typer.echo("nothing new, changed or gone")
    if status["out_of_reach"]:
        typer.echo(
            f"{count(status['out_of_reach'], 'file')} out of reach, in folders that are missing, "
            "empty or on another disk: 'hasse sync' leaves them"
        )
    if status["kept_texts"]:
        pictures = count(status["kept_texts_of"], "picture")
        typer.echo(
            f"kept: {count(status['kept_texts'], 'text')} that people gave to {pictures} not in "
            "the library; 'hasse remove --kept-texts' forgets them"
        )
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


def size(number: int) -> str:
    """Return a number of bytes in a readable unit, such as "2.5 MB"."""
    scaled = float(number)
    for unit in ("bytes", "kB", "MB", "GB"):
        if scaled < 1000:
            return f"{scaled:,.0f} {unit}" if unit == "bytes" else f"{scaled:,.1f} {unit}"
        scaled /= 1000
    return f"{scaled:,.1f} TB"
