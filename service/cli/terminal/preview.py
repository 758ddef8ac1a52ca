"""Pictures in a terminal, by the protocols of kitty and of iTerm2."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Literal

from hasse.service.cli.terminal.errors import CommandError

Protocol = Literal["kitty", "iterm"]

_SIDE = 240  # pixels of the longest side
_CHUNK = 4096  # maximum of characters in one command of kitty's protocol
_PROGRAMS: Mapping[str, Protocol] = {
    "ghostty": "kitty",
    "iTerm.app": "iterm",
    "WezTerm": "iterm",
    "mintty": "iterm",
}


def protocol_of(environment: Mapping[str, str]) -> Protocol:
    """Return the protocol of the terminal; raises CommandError if it cannot show pictures."""
    protocol = _PROGRAMS.get(environment.get("TERM_PROGRAM", ""))
    if protocol is not None:
        return protocol
    if environment.get("TERM") in ("xterm-kitty", "xterm-ghostty"):
        return "kitty"
    if environment.get("KITTY_WINDOW_ID") or environment.get("KONSOLE_VERSION"):
        return "kitty"
    raise CommandError(
        "this terminal shows no pictures: --preview needs kitty, Ghostty, iTerm2, WezTerm or "
        "Konsole; --open opens the hits in another program"
    )


def preview(path: Path, protocol: Protocol, pixels: int) -> str:
    """Return the escape sequence that shows a small picture in a terminal.

    Raises:
        models.images.limits.PictureError: the file is no picture, or has more than `pixels`.
        OSError: the file cannot be read.
    """
    from hasse.models.images.decoding import open_picture
    from hasse.models.images.limits import PictureLimits

    picture = open_picture(path, PictureLimits(pixels), _SIDE)
    picture.thumbnail((_SIDE, _SIDE))
    out = BytesIO()
    picture.save(out, "PNG")
    data = base64.b64encode(out.getvalue()).decode()
    if protocol == "iterm":
        return f"\033]1337;File=inline=1;size={len(out.getvalue())}:{data}\a\n"
    chunks = [data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK)]
    last = len(chunks) - 1
    return (
        "".join(
            f"\033_G{'a=T,f=100,' if at == 0 else ''}m={int(at < last)};{chunk}\033\\"
            for at, chunk in enumerate(chunks)
        )
        + "\n"
    )
