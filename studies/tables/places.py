"""Does the model for photographs point at the thing that a text names?

    python -m hasse.studies.tables.places data/names

The pictures are named by what they show, as n02084071_1_dog.jpg. One is pasted into another at a
random place, with 35 to 60 % of its sides, and the box of its name is looked for. Pointed is where
the middle of the box lies in the pasted picture; intersection over union compares the two boxes.
Rows are what the box comes from: the one of the four windows of the model's evidence that carries
the name most, and `hasse.models.grounding.boxes` at once and at twice the side of pictures. At the
side that is used, names that neither picture has are looked for too.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

from hasse.lab.checkpoints.learned_model import load
from hasse.models.checkpoints.named_models import find as find_model
from hasse.models.datasets import Image
from hasse.models.datasets import load as load_dataset
from hasse.models.encoders.regions import region_means
from hasse.models.grounding.boxes import boxes_in_cells, demanded_classes
from hasse.models.grounding.evidence import Floats, softmax, windows
from hasse.models.grounding.grounded_model import GroundedModel
from hasse.service.questions.entails import ENLARGEMENT
from hasse.studies.photographs.classes import article
from hasse.studies.tables.report import markdown, parser_of, percent
from hasse.studies.tables.truth import names_of

_SIDE = 520  # pixels of a picture that another is pasted into
_WINDOWS = [(0, 0), (1, 0), (0, 1), (1, 1)]  # thirds of the sides at which windows begin


class Pasted(NamedTuple):
    """A picture with another one in it, the name and the box of that one, and a name of neither."""

    picture: Pillow.Image
    name: str
    box: NDArray[np.float64]
    absent: str


def pasted(images: Sequence[Image], count: int) -> list[Pasted]:
    """Draw pictures of different names into each other, always the same ones."""
    rows, names = names_of(images, 0)
    draw = np.random.default_rng(0)
    found: list[Pasted] = []
    while len(found) < count:
        below, above, other = draw.choice(len(rows), 3, replace=False)
        if len({names[below], names[above], names[other]}) < 3:
            continue
        side = int(_SIDE * draw.uniform(0.35, 0.6))
        left, top = draw.integers(0, _SIDE - side, 2)
        picture = _square(images[rows[below]].path, _SIDE)
        picture.paste(_square(images[rows[above]].path, side), (int(left), int(top)))
        box = np.array([left, top, left + side, top + side]) / _SIDE
        found.append(Pasted(picture, names[above], box, names[other]))
    return found


def _square(path: Path, side: int) -> Pillow.Image:
    with Pillow.open(path) as opened:
        picture = opened.convert("RGB")
    short = min(picture.size)
    left, top = ((length - short) // 2 for length in picture.size)
    return picture.crop((left, top, left + short, top + short)).resize((side, side))


def overlap(one: NDArray[np.floating], other: NDArray[np.floating]) -> float:
    """Return the intersection of two boxes over their union."""
    sides = np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2])
    shared = float(np.prod(sides.clip(0)))
    areas = sum(float(np.prod(box[2:] - box[:2])) for box in (one, other))
    return shared / (areas - shared)


def points_into(box: NDArray[np.floating], target: NDArray[np.floating]) -> bool:
    """Tell whether the middle of a box lies in another one."""
    middle = (box[:2] + box[2:]) / 2
    return bool(box.any() and (target[:2] <= middle).all() and (middle <= target[2:]).all())


def measure(model: GroundedModel, shown: Sequence[Pasted]) -> list[tuple[str, ...]]:
    """Return the rows of the table."""
    found: dict[str, list[tuple[bool, float]]] = {}
    absent: list[bool] = []
    for one in shown:
        named = model.demands.phrases(article(one.name))
        if not named:
            continue
        grids = {}
        for times in (1, ENLARGEMENT):
            grids[times] = model.cells(model.preprocessing.enlarged(times).apply(one.picture))
        carried = _carried(model, grids[1], demanded_classes(model.evidence, named[-1]))
        each = {
            "one of four windows": carried,
            **{
                f"{times} x the side": boxes_in_cells(model.evidence, grid, named)[-1]
                for times, grid in grids.items()
            },
        }
        for name, box in each.items():
            of_name = found.setdefault(name, [])
            of_name.append((points_into(box, one.box), overlap(box, one.box) if box.any() else 0.0))
        if missing := model.demands.phrases(article(one.absent)):
            absent.append(
                bool(boxes_in_cells(model.evidence, grids[ENLARGEMENT], missing)[-1].any())
            )
    rows: list[tuple[str, ...]] = []
    for name, values in found.items():
        hit, shared = np.array(values, np.float64).T
        rows.append((name, percent(hit), percent(shared), percent((shared > 0.5).astype(float))))
    rows.append(("found though absent", percent(np.array(absent, np.float64)), "", ""))
    return rows


def _carried(model: GroundedModel, cells: Floats, classes: Floats) -> NDArray[np.float64]:
    features = windows(region_means(cells)[None])[0, 1:]
    carried = softmax(model.evidence.logits(features), 1) @ classes
    left, top = _WINDOWS[int(carried.argmax())]
    return np.array([left, top, left + 2, top + 2]) / 3


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("dataset", type=Path, help="made by 'hasse lab data import folder'")
    parser.add_argument("--model", type=Path, default=Path("photographs"))
    parser.add_argument("--pictures", type=int, default=200)
    options = parser.parse_args(arguments)
    model = load(find_model(options.model)).model
    if not isinstance(model, GroundedModel):
        parser.error(f"the model {options.model} is not grounded")
    rows = measure(model, pasted(load_dataset(options.dataset).images, options.pictures))
    print(markdown(("box", "pointed", "intersection over union", "over a half"), rows))


if __name__ == "__main__":
    main()
