"""A few words in the format of WordNet's database files."""

from __future__ import annotations

from pathlib import Path

_LICENCE = "  1 This is where the licence is.\n"
# Offset, words and the offsets above.
_NOUNS = (
    ("00000001", ("entity",), ()),
    ("00000002", ("animal", "beast"), ("00000010",)),
    ("00000003", ("bird",), ("00000002",)),
    ("00000004", ("branch",), ("00000001",)),
    ("00000005", ("autumn",), ("00000001",)),
    ("00000006", ("dog", "domestic_dog"), ("00000002",)),
    ("00000007", ("man",), ("00000001",)),
    ("00000008", ("men's_room",), ("00000001",)),
    ("00000009", ("run",), ("00000001",)),
    ("00000010", ("physical_entity",), ("00000001",)),
)
_OTHERS: dict[str, tuple[str, ...]] = {
    "verb": ("sit", "run", "walk"),
    "adj": ("blue", "black", "white"),
}
_COUNTS = (("animal%1:03:00::", 30), ("run%2:38:00::", 90), ("run%1:04:00::", 3))


def write_wordnet(folder: Path) -> Path:
    """Write the files into a folder and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    rows, senses = [], []
    for offset, names, above in _NOUNS:
        words = " ".join(f"{name} 0" for name in names)
        pointers = "".join(f" @ {target} n 0000" for target in above)
        rows.append(
            f"{offset} 03 n {len(names):02x} {words} {len(above):03d}{pointers} | a gloss\n"
        )
        senses += [f"{name} n 1 1 @ 1 0 {offset}\n" for name in names]
    (folder / "data.noun").write_text(_LICENCE + "".join(rows))
    (folder / "index.noun").write_text(_LICENCE + "".join(senses))
    for part, others in _OTHERS.items():
        lines = [f"{name} {part[0]} 1 0 1 0 00000001\n" for name in others]
        (folder / f"index.{part}").write_text(_LICENCE + "".join(lines))
    for part, irregular in {
        "noun": "men man\n",
        "verb": "sat sit\n",
        "adj": "bluer blue\n",
    }.items():
        (folder / f"{part}.exc").write_text(irregular)
    counts = "".join(f"{key} 1 {count}\n" for key, count in _COUNTS)
    (folder / "cntlist.rev").write_text(counts)
    return folder
