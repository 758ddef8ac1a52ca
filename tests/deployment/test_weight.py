"""Each floor keeps to its budget of lines of code; `make weight` prints the table.

Who needs more takes out as much in the same change, or raises the number in a commit that says what
a user gains.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.weight import PRODUCT, ROOT, weight_of

BUDGETS = {"models": 6_744, "index": 8_461, "service": 16_356, "lab": 6_200}
MOST_NAMES = 1_203  # public functions and classes of the product


@pytest.mark.parametrize("floor", BUDGETS)
def test_floor_has_at_most_its_budget_of_code(floor: str) -> None:
    assert weight_of(ROOT / floor).code <= BUDGETS[floor]


def test_product_has_few_public_names() -> None:
    assert sum(weight_of(ROOT / floor).names for floor in PRODUCT) <= MOST_NAMES


def test_weight_leaves_out_blanks_comments_and_docstrings(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        '"""Doc\n\nmore."""\n\n# comment\nX = (\n    1,  # one\n)\n\n\n'
        'def f():\n    """Doc."""\n    return X\n\n\ndef _g(): ...\n'
    )
    (tmp_path / "linked").symlink_to(tmp_path)
    weight = weight_of(tmp_path)
    assert (weight.files, weight.code, weight.names) == (1, 6, 1)
