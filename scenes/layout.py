"""Lay out one group of related entities: places, poses and what hands hold.

Lengths are in hundredths of the picture's side; the group's ground is y = 0 and it faces right.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hasse.scenes.concepts import SCENERY, is_a
from hasse.scenes.scene import Situation

HEIGHTS = {"man": 48.0, "woman": 46.0, "boy": 33.0, "girl": 32.0}
SEAT = 13.0
HALF_WIDTHS = {
    "poodle": 12.0,
    "labrador": 14.0,
    "cat": 10.0,
    "rabbit": 7.0,
    "horse": 24.0,
    "cow": 22.0,
    "sheep": 14.0,
    "pig": 15.0,
    "hen": 8.0,
    "duck": 8.0,
    "parrot": 11.0,
    "penguin": 7.0,
    "car": 22.0,
    "bicycle": 18.0,
    "boat": 21.0,
    "sled": 14.0,
    "ball": 5.0,
    "kite": 9.0,
    "balloon": 6.0,
    "bench": 17.0,
    "chair": 8.0,
    "table": 17.0,
    "tree": 18.0,
    "flower": 4.0,
    "umbrella": 19.0,
    "book": 6.0,
    "cup": 5.0,
    "cake": 7.0,
    "snowman": 11.0,
}
TALL = {"tree": 72.0, "snowman": 38.0, "horse": 42.0, "kite": 10.0, "parrot": 11.0}
ANIMAL_SCALE = {"small": 0.82, "big": 1.38}
THING_SCALE = {"small": 0.8, "big": 1.6}
PET_SCALE = 1.15  # those that have no sizes
TREE_SCALE = {"small": 0.5, "big": 1.0}

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Figure:
    """One entity of a group: feet at (x, y), `unit` long, mirrored where facing is -1.

    `front` and `back` are a person's hands in body heights where the pose does not say;
    `held` tells an umbrella or flower in a hand from one in the ground.
    """

    index: int
    x: float
    y: float
    unit: float
    pose: str = "stand"
    facing: int = 1
    front: Point | None = None
    back: Point | None = None
    held: bool = False


@dataclass(frozen=True, slots=True)
class Cord:
    """A leash, a string or a rope between two points of a group."""

    start: Point
    end: Point
    sag: float


@dataclass(frozen=True, slots=True)
class Group:
    """Figures and cords in drawing order, and the stretch of ground they need."""

    parts: tuple[Figure | Cord, ...]
    left: float
    right: float
    top: float
    afloat: bool = False


def groups(situation: Situation) -> list[Group]:
    """Lay out each set of related entities around its own origin, facing right."""
    scenery = SCENERY.get(situation.place or "")
    found: list[Group] = []
    for members in _components(situation):
        if len(members) == 1 and situation.entities[members[0]].kind == scenery:
            continue
        found.append(_Layout(situation).group(members[0]))
    return found


def _components(situation: Situation) -> list[list[int]]:
    label = list(range(len(situation.entities)))
    for relation in situation.relations:
        old, new = label[relation.object], label[relation.subject]
        label = [new if each == old else each for each in label]
    members: dict[int, list[int]] = {}
    for index, each in enumerate(label):
        members.setdefault(each, []).append(index)
    return list(members.values())


_ACTION_POSES = {
    "walking": "walk",
    "running": "run",
    "sleeping": "sleep",
    "swimming": "swim",
    "flying": "fly",
}
_HANDS: dict[str, Point] = {
    "balloon": (0.24, 0.72),
    "umbrella": (0.17, 0.6),
    "flower": (0.27, 0.62),
    "cup": (0.27, 0.58),
    "book": (0.25, 0.56),
}


class _Layout:
    def __init__(self, situation: Situation) -> None:
        self.situation = situation
        self.behind: list[Figure | Cord] = []
        self.middle: list[Figure | Cord] = []
        self.ahead: list[Figure | Cord] = []
        self.left = 0.0
        self.right = 0.0
        self.top = 0.0
        self.afloat = False

    def group(self, root: int) -> Group:
        """Lay out the group whose subject is `root`."""
        if self._kind(root) == "boat" or self.situation.entities[root].action == "swimming":
            self.afloat = True
        self._subject(root, 0.0)
        parts = (*self.behind, *self.middle, *self.ahead)
        for part in parts:
            if isinstance(part, Figure):
                self.top = max(self.top, part.y + self._height(part))
        return Group(parts, self.left, self.right, self.top, self.afloat)

    def _kind(self, index: int) -> str:
        return self.situation.entities[index].kind

    def unit(self, index: int) -> float:
        """Return a person's height, or the scale of anything else."""
        entity = self.situation.entities[index]
        if entity.kind in HEIGHTS:
            return HEIGHTS[entity.kind]
        if entity.size is None:
            return PET_SCALE if entity.kind in ("cat", "rabbit", "hen", "duck", "penguin") else 1.0
        if entity.kind == "tree":
            return TREE_SCALE[entity.size]
        return (ANIMAL_SCALE if is_a(entity.kind, "animal") else THING_SCALE)[entity.size]

    def _height(self, figure: Figure) -> float:
        kind = self._kind(figure.index)
        if kind in HEIGHTS:
            return 1.08 * figure.unit
        if kind == "umbrella":
            return 27.0 if figure.held else 52.0
        return TALL.get(kind, 22.0) * figure.unit

    def half(self, index: int, unit: float | None = None) -> float:
        """Return half the width of an entity on the ground."""
        width = 0.24 if self._kind(index) in HEIGHTS else HALF_WIDTHS[self._kind(index)]
        return width * (self.unit(index) if unit is None else unit)

    def _cover(self, left: float, right: float) -> None:
        self.left, self.right = min(self.left, left), max(self.right, right)

    def _subject(self, index: int, x: float) -> None:
        entity = self.situation.entities[index]
        pose = _ACTION_POSES.get(entity.action or "", "stand")
        if entity.action == "sitting":
            pose = "rest" if entity.kind in HEIGHTS else "sit"
        figure = Figure(index, x, 0.0, self.unit(index), pose)
        if pose == "fly":
            figure = replace(figure, y=52.0)
        stride = 1.4 if pose == "run" else 1.0
        self._cover(x - stride * self.half(index), x + stride * self.half(index))
        for relation in self.situation.relations:
            if relation.subject == index:
                figure = getattr(self, f"_{relation.name.replace(' ', '_')}")(
                    figure, relation.object
                )
        self.middle.append(figure)

    def _hand(self, figure: Figure, hand: Point) -> Point:
        return figure.x + hand[0] * figure.unit, figure.y + hand[1] * figure.unit

    def _put(self, layer: list[Figure | Cord], figure: Figure) -> None:
        """Add a figure to a layer, and its width to that of the group."""
        layer.append(figure)
        half = self.half(figure.index, figure.unit)
        self._cover(figure.x - half, figure.x + half)

    def _walking(self, figure: Figure, target: int) -> Figure:
        front = (0.24, 0.44)
        x = figure.x + 0.2 * figure.unit + self.half(target) + 5
        dog = Figure(target, x, 0.0, self.unit(target), "walk")
        self._put(self.middle, dog)
        collar = (x + 5.5 * dog.unit, 11.5 * dog.unit)
        self.ahead.append(Cord(self._hand(figure, front), collar, 3.0))
        return replace(figure, pose="walk", front=front)

    def _riding(self, figure: Figure, target: int) -> Figure:
        kind = self._kind(target)
        child = is_a(self._kind(figure.index), "child")
        if kind == "bicycle":
            scale = figure.unit / (43.0 if child else 47.0)
            self._put(self.behind, Figure(target, figure.x, 0.0, scale))
            return replace(figure, pose="cycle", front=(0.2, 0.5), back=(0.2, 0.5))
        if kind == "horse":
            action = self.situation.entities[target].action
            pose = "walk" if action == "walking" else "stand"
            self.behind.append(Figure(target, figure.x + 2, 0.0, 1.0, pose))
            self._cover(-18, 29)
            hips = (0.36 if child else 0.42) * figure.unit
            return replace(figure, pose="ride", y=24.5 - hips, front=(0.2, 0.48), back=(0.2, 0.48))
        self.behind.append(Figure(target, figure.x, 0.0, 1.0))
        self._cover(-15, 15)
        return replace(figure, pose="rest", x=figure.x - 4, y=5.0)

    def _holding(self, figure: Figure, target: int) -> Figure:
        kind = self._kind(target)
        second = figure.front is not None and kind in ("umbrella", "balloon")
        hand = (-0.16, 0.6) if second else _HANDS[kind]
        if not second:
            low = 0.08 if figure.pose in ("rest", "seat") and kind != "balloon" else 0.0
            hand = (hand[0], hand[1] - low - (0.16 if figure.pose == "seat" else 0.0))
        x, y = self._hand(figure, hand)
        self.ahead.append(Figure(target, x, y, self.unit(target), held=True))
        reach = 14.0 if kind == "umbrella" else 6.0
        self._cover(x - reach, x + reach)
        return replace(figure, back=hand) if second else replace(figure, front=hand)

    def _reading(self, figure: Figure, target: int) -> Figure:
        figure = self._holding(figure, target)
        return replace(figure, back=figure.front)

    def _flying(self, figure: Figure, target: int) -> Figure:
        hand = (0.24, 0.74)
        x, y = figure.x + 14.0, 68.0
        self.behind.append(Cord(self._hand(figure, hand), (x, y - 6), -2.0))
        self._put(self.ahead, Figure(target, x, y, 1.0, held=True))
        return replace(figure, front=hand)

    def _kicking(self, figure: Figure, target: int) -> Figure:
        x = figure.x + 0.42 * figure.unit + self.half(target)
        self._put(self.ahead, Figure(target, x, 2.0, self.unit(target)))
        return replace(figure, pose="kick")

    def _throwing(self, figure: Figure, target: int) -> Figure:
        x, y = self._hand(figure, (0.3, 0.98))
        self._put(self.ahead, Figure(target, x + self.half(target), y, self.unit(target)))
        return replace(figure, pose="stand", front=(0.2, 0.86))

    def _pulling(self, figure: Figure, target: int) -> Figure:
        hand = (-0.22, 0.42)
        x = figure.x - 0.2 * figure.unit - self.half(target) - 4
        self._put(self.middle, Figure(target, x, 0.0, 1.0))
        self.ahead.append(Cord(self._hand(figure, hand), (x + 12, 5.0), 1.0))
        return replace(figure, back=hand)

    def _chasing(self, figure: Figure, target: int) -> Figure:
        x = figure.x + self.half(figure.index) + self.half(target) + 7
        pose = "stand" if self._kind(target) == "ball" else "run"
        self._put(self.middle, Figure(target, x, 0.0, self.unit(target), pose))
        return replace(figure, pose="run")

    def _sitting_on(self, figure: Figure, target: int) -> Figure:
        self._put(self.behind, Figure(target, figure.x, 0.0, 1.0))
        return replace(figure, pose="seat", y=SEAT - 0.27 * figure.unit)

    def _on(self, figure: Figure, target: int) -> Figure:
        self._put(self.behind, Figure(target, figure.x, 0.0, 1.0))
        return replace(figure, y=20.0 if self._kind(target) == "table" else SEAT)

    def _under(self, figure: Figure, target: int) -> Figure:
        self._put(self.behind, Figure(target, figure.x, 0.0, self.unit(target)))
        return replace(figure, x=figure.x + (4.0 if self._kind(target) != "table" else 0.0))

    def _in(self, figure: Figure, target: int) -> Figure:
        self.afloat = True
        self._put(self.ahead, Figure(target, figure.x, 0.0, 1.0))
        lift = 4.0 - 0.1 * figure.unit if self._kind(figure.index) in HEIGHTS else 5.0
        pose = "sit" if figure.pose == "sit" else "seat"
        return replace(figure, x=figure.x - 3, y=lift, pose=pose)

    def _next_to(self, figure: Figure, target: int) -> Figure:
        x = figure.x + self.half(figure.index) + self.half(target) + 1.0
        self._put(self.behind, Figure(target, x, 0.0, self.unit(target)))
        return figure

    def _hand_in_hand_with(self, figure: Figure, target: int) -> Figure:
        other = self.unit(target)
        x = figure.x + 0.2 * figure.unit + 0.2 * other + 2
        middle = (figure.x + 0.58 * (x - figure.x), 0.47 * other)
        hand = ((middle[0] - figure.x) / figure.unit, middle[1] / figure.unit)
        theirs = ((middle[0] - x) / other, middle[1] / other)
        self._put(self.middle, Figure(target, x, 0.0, other, figure.pose, back=theirs))
        return replace(figure, front=hand)
