"""What the README and the other documents say of settings, targets and files is so."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hasse.service.questions.answers import CaptionAnswer, Entailment, ImageAnswer
from hasse.service.schemas import AddedImage
from hasse.service.settings import Settings, descriptions

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
REFERENCE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")


def test_settings_table_is_that_of_the_service() -> None:
    rows = re.findall(r"^\| `(HASSE_\w+)` \| (?:`(.*?)`)? ?\| (.+) \|$", REFERENCE, re.MULTILINE)
    expected = [
        (
            f"HASSE_{name.upper()}",
            "" if field.default is None else str(field.default),
            descriptions()[name],
        )
        for name, field in Settings.model_fields.items()
    ]
    assert rows == expected


def test_every_make_target_in_the_readme_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for line in re.findall(r"(?:^|`)make ([a-z -]+?)(?:`|  |$)", README, re.MULTILINE):
        assert set(line.split()) <= targets, line


@pytest.mark.parametrize(
    "document",
    [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))],
    ids=lambda path: path.name,
)
def test_every_file_named_in_a_document_exists(document: Path) -> None:
    folders = "models|index|service|docker|benchmarks|tests"
    text = document.read_text(encoding="utf-8")
    for name in re.findall(rf"`((?:{folders})/[\w./-]*)`", text):
        assert (ROOT / name).exists(), name
    for name in re.findall(r"\]\(((?!https?:)[\w./-]+)", text):
        assert (document.parent / name).exists(), name


def test_readme_begins_with_the_two_commands() -> None:
    first = README.index("make demo")
    assert first < README.index("make test") < README.index("/search/images")


def test_every_answer_shown_has_the_schema_of_the_service() -> None:
    shown = re.compile(r"^```json\n(.+?)^```", re.M | re.S)
    (images,) = shown.findall(README)
    captions, entailment, agents, added = shown.findall(REFERENCE)
    ImageAnswer.model_validate_json(images)
    CaptionAnswer.model_validate_json(captions)
    Entailment.model_validate_json(entailment)
    AddedImage.model_validate_json(added)
    assert json.loads(agents)["mcpServers"]["pictures"] == {"command": "hasse", "args": ["mcp"]}
