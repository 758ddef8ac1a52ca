from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from hasse.studies.tables.plane import draw, principal_plane
from tests.service.cli.shell import hasse
from tests.service.collection import picture
from tests.tiny import tiny_checkpoint


def test_plane_shows_the_two_directions_in_which_points_differ_most() -> None:
    draws = np.random.default_rng(0)
    spread = np.array([10, 5, 0.01, 0.01], np.float32)
    points = draws.normal(size=(40, 4)).astype(np.float32) * spread + 3
    places, share = principal_plane(points)
    assert share > 0.999
    distances = np.linalg.norm(points[:, None] - points, axis=2)
    found = np.linalg.norm(places[:, None] - places, axis=2)
    np.testing.assert_allclose(found, distances, atol=0.2)
    places, share = principal_plane(np.ones((3, 4), np.float32))
    assert (np.abs(places).max(), share) == (pytest.approx(0, abs=1e-6), 1.0)


def test_drawing_has_every_text_and_picture(tmp_path: Path) -> None:
    places = np.array([[0, 0], [1, 5], [2, 3]], np.float64)
    draw(places, ["a & b", "<c>"], [picture(1)], tmp_path / "new" / "plane.svg")
    root = ElementTree.parse(tmp_path / "new" / "plane.svg").getroot()  # noqa: S314
    texts = [node.text for node in root.iter() if node.tag.endswith("text")]
    assert set(texts) == {"a & b", "<c>"}
    assert len([node for node in root.iter() if node.tag.endswith("image")]) == 1


def test_plot_command_draws_words_and_pictures_of_a_model(tmp_path: Path) -> None:
    model = tiny_checkpoint(tmp_path / "tiny")
    picture(1).save(tmp_path / "a.png")
    out = tmp_path / "plane.svg"
    given = ("study plot", tmp_path / "a.png", "--model", model, "--out", out)
    shown = hasse(*given, "--words", "red dog, cat")
    assert "2 texts and 1 picture;" in shown.out
    assert "<svg" in out.read_text()
    assert "at least three" in hasse(*given, "--words", "cat").error
    assert "knows no word" in hasse(*given, "--words", "cat,zebra").error
