"""Output in any locale, and rows that no name splits."""

from __future__ import annotations

import io
import json
import sys

import pytest

from hasse.service.cli.terminal.output import accept_any_character, escape, one_line
from hasse.service.cli.terminal.progress import tell
from hasse.service.cli.terminal.table import print_table

NAMES = ["\u72ac.jpg", "\U0001f415.jpg", "caf\xe9.jpg", "a\nb.jpg", "\udcff.jpg"]


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "ascii", "utf-8"])
def test_json_in_any_encoding_stays_the_same_json(
    monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding, errors="strict"))
    accept_any_character()
    sys.stdout.write(json.dumps(NAMES, ensure_ascii=False))
    sys.stdout.flush()
    assert json.loads(written.getvalue().decode(encoding)) == NAMES


def test_character_beyond_16_bits_is_escaped_as_a_surrogate_pair() -> None:
    assert escape("\U0001f415") == r"\ud83d\udc15"


def test_one_line_escapes_what_splits_lines_or_moves_the_cursor() -> None:
    assert one_line("a\nb\r\tc\x1b[31m\u2028\u202ed") == r"a\nb\r\tc\u001b[31m\u2028\u202ed"
    assert one_line("caf\xe9 \U0001f415\u200d\u72ac") == "caf\xe9 \U0001f415\u200d\u72ac"


def test_table_row_with_a_newline_in_a_name_stays_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_table(("", ""), [("a\nb.jpg", "1"), ("c.jpg", "2")])
    assert capsys.readouterr().out.splitlines() == [r"a\nb.jpg  1", "c.jpg     2"]


def test_tell_prints_a_name_with_a_newline_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    tell("a\nb.jpg: damaged")
    assert capsys.readouterr().err == "a\\nb.jpg: damaged\n"
