"""The colours that words name, and those that no caption mentions."""

from __future__ import annotations

from random import Random

from hasse.scenes.drawing.pen import Colour

NAMED: dict[str, Colour] = {
    "red": (214, 44, 50),
    "orange": (247, 138, 28),
    "yellow": (252, 214, 44),
    "green": (22, 134, 74),
    "blue": (40, 98, 214),
    "purple": (136, 64, 178),
    "white": (247, 247, 245),
    "black": (40, 40, 50),
    "brown": (136, 86, 52),
    "grey": (146, 150, 158),
}
_JITTER = 9
_NEUTRAL = ("white", "black", "grey")

SKINS: tuple[Colour, ...] = (
    (252, 216, 190),
    (244, 196, 160),
    (222, 166, 124),
    (172, 116, 80),
    (128, 82, 58),
)
HAIRS: tuple[Colour, ...] = (
    (48, 36, 36),
    (92, 58, 38),
    (150, 92, 48),
    (206, 160, 84),
    (172, 76, 40),
)
TROUSERS: tuple[Colour, ...] = ((62, 70, 96), (92, 82, 78), (74, 84, 88), (108, 90, 72))
HATS: tuple[Colour, ...] = ((222, 188, 124), (112, 76, 52), (78, 76, 88))
WOOD: Colour = (172, 118, 72)
METAL: Colour = (110, 116, 126)
DARK: Colour = (48, 44, 52)
PINK: Colour = (244, 158, 172)
BEAK: Colour = (246, 168, 44)


def dye(name: str, rng: Random) -> Colour:
    """Return a named colour, varied too little to be taken for another."""
    if name in _NEUTRAL:
        shift = rng.randint(-_JITTER, _JITTER) // 2  # of all channels: no tinge of a colour
        red, green, blue = (max(0, min(255, c + shift)) for c in NAMED[name])
    else:
        red, green, blue = (
            max(0, min(255, c + rng.randint(-_JITTER, _JITTER))) for c in NAMED[name]
        )
    return red, green, blue


def mix(first: Colour, second: Colour, share: float) -> Colour:
    """Return `first` with a share (0 to 1) of `second` in it."""
    red, green, blue = (int(a + (b - a) * share) for a, b in zip(first, second, strict=True))
    return red, green, blue
