"""Textual entailment: may one sentence be inferred from another (Vendrov et al., section 5)?"""

from __future__ import annotations

from pathlib import Path

from hasse.studies.entailment import sick, snli
from hasse.studies.entailment.pairs import Corpus, EntailmentError, SentencePair

__all__ = ["Corpus", "EntailmentError", "SentencePair", "read"]


def read(path: Path) -> Corpus:
    """Read SNLI, when given its folder, or SICK, when given its file.

    Raises:
        EntailmentError: it is neither, or damaged; the place is named.
    """
    if not path.exists():
        raise EntailmentError(f"there is no {path}: give SNLI's folder or the file SICK.txt")
    return snli.read(path) if path.is_dir() else sick.read(path)
