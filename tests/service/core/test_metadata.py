"""What is known of a picture beside what it shows."""

from __future__ import annotations

from pathlib import Path

from hasse.index.types import ImageRow, Metadata
from hasse.service.core.metadata import Fact, picture_details


def test_facts_name_date_camera_place_folder_and_size_with_their_filters(tmp_path: Path) -> None:
    row = ImageRow(1, "a.jpg", "a.jpg", 4000, 3000, taken=1_780_000_000_000)
    (tmp_path / "a.jpg").write_bytes(bytes(2_340_000))
    texts = (
        ("title", "Two swans"),
        ("keyword", "swans"),
        ("keyword", "swans"),
        ("added keyword", "Anna"),
        ("camera", "Nikon Z 6"),
        ("camera", "NIKKOR 50 mm"),
        ("place", "Schlachtensee, Berlin"),
    )
    metadata = Metadata(texts, "Nikon Z 6", 4, 52.5, 13.4)  # type: ignore[arg-type]
    known = picture_details(row, tmp_path / "a.jpg", "trips/lake/a.jpg", metadata)
    days = {"taken_from": "2026-05-28", "taken_before": "2026-05-29"}
    assert known.facts == [
        Fact("Title", "Two swans"),
        Fact("Taken", "28 May 2026, 20:26", days),
        Fact("Camera", "Nikon Z 6", {"camera": "Nikon Z 6"}),
        Fact("Lens", "NIKKOR 50 mm"),
        Fact("Place", "Schlachtensee, Berlin", {"near": "52.5000,13.4000,10"}),
        Fact("Folder", "trips/lake", {"path_prefix": "trips/lake/"}),
        Fact("Size", "4,000 × 3,000 pixels, 2.3 MB"),
        Fact("Rating", "★★★★☆"),
    ]
    assert (known.keywords, known.added_keywords) == (["swans"], ["Anna"])


def test_facts_leave_out_what_is_not_known(tmp_path: Path) -> None:
    plain = ImageRow(1, "a.jpg", "a.jpg")

    def facts(row: ImageRow, name: str, **found: float) -> list[tuple[str, str]]:
        known = picture_details(row, tmp_path / name, "a.jpg", Metadata(**found))  # type: ignore[arg-type]
        return [(fact.label, fact.value) for fact in known.facts]

    assert facts(plain, "gone.jpg") == []
    (tmp_path / "a.jpg").write_bytes(b"1")
    assert facts(plain, "a.jpg") == [("Size", "1 kB")]
    odd = plain._replace(taken=2**62, width=3, height=4)
    assert facts(odd, "gone.jpg", rating=-1) == [("Size", "3 × 4 pixels")]
    assert facts(plain, "gone.jpg", latitude=-1.25, longitude=-70.5) == [
        ("Place", "1.2° S, 70.5° W")
    ]
