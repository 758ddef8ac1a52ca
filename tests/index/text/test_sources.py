from __future__ import annotations

from hasse.index.text.sources import TEXT_SOURCES
from hasse.service.questions.answers import Says
from hasse.service.verdict import WHERE_WORDS


def test_every_source_of_a_text_is_documented_and_has_words() -> None:
    described = Says.model_fields["where"].description or ""
    assert set(WHERE_WORDS) == set(TEXT_SOURCES)
    assert all(source in described for source in TEXT_SOURCES)
