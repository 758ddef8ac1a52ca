"""Print how heavy each floor is: files, lines, lines of code, and public names.

    make weight

Lines of code are those without blanks, comments and docstrings. A public name is a function or a
class of a module whose name begins without an underscore. tests/deployment/test_weight.py holds the
lines of code to a budget.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRODUCT = ("models", "index", "service", "hasse")
FLOORS = (*PRODUCT, "lab", "studies", "scenes", "benchmarks", "tests")
_NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE),
    *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
}
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_NAMED = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class Weight:
    """Files, lines, lines of code and public names of a folder."""

    files: int = 0
    lines: int = 0
    code: int = 0
    names: int = 0

    def __add__(self, other: Weight) -> Weight:
        return Weight(
            self.files + other.files,
            self.lines + other.lines,
            self.code + other.code,
            self.names + other.names,
        )


def weight_of(folder: Path) -> Weight:
    """Return the weight of all Python files below a folder; links are not followed."""
    return sum((_weight(path.read_text(encoding="utf-8")) for path in _files(folder)), Weight())


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.is_symlink():
            yield from _files(path)
        elif path.suffix == ".py":
            yield path


def _weight(source: str) -> Weight:
    tree = ast.parse(source)
    documentation: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            text = node.body[0]
            documentation.update(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    names = [node.name for node in tree.body if isinstance(node, _NAMED)]
    public = sum(not name.startswith("_") for name in names)
    return Weight(1, len(source.splitlines()), len(code - documentation), public)


def main() -> None:
    """Print the table."""
    weights = {floor: weight_of(ROOT / floor) for floor in FLOORS}
    product = sum((weights[floor] for floor in PRODUCT), Weight())
    rows = [*weights.items(), ("product", product)]
    print(f"{'floor':<12}{'files':>8}{'lines':>9}{'code':>9}{'names':>8}")
    for floor, weight in rows:
        figures = f"{weight.files:>8,}{weight.lines:>9,}{weight.code:>9,}{weight.names:>8,}"
        print(f"{floor:<12}{figures}")


if __name__ == "__main__":
    main()
