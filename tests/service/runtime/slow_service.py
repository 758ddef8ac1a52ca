"""A service that waits for a file: `python -m tests.service.runtime.slow_service FILE`.

Its model waits where a caption is "a dog runs slowly", and its catalog where the image 7 is asked
for.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hasse.service.core.engine import Engine
from hasse.service.runtime.server import run
from hasse.service.runtime.sockets import listen
from hasse.service.settings import Settings
from hasse.service.telemetry import logs


def open_slow(*given: Any) -> Any:
    """Open the engine and make it wait."""
    gate = Path(sys.argv[1])
    engine: Any = Engine.open(*given)

    def wait(found: bool) -> None:
        while found and not gate.exists():
            time.sleep(0.01)

    encode, look_up = engine.checkpoint.model.encode_captions, engine.index.catalog.described_images

    def slowly(texts: list[str], batch_size: int = 256) -> Any:
        wait("a dog runs slowly" in texts)
        return encode(texts, batch_size)

    def silently(ids: Iterable[int]) -> Any:
        wait(7 in (wanted := list(ids)))
        return look_up(wanted)

    engine.checkpoint.model.encode_captions = slowly
    engine.index.catalog.described_images = silently
    return engine


if __name__ == "__main__":
    settings = Settings()
    logs.configure(settings.log_format, settings.log_level)
    with listen(settings.host, settings.port) as listener:
        run(settings, listener, lambda lines: print(lines, flush=True), open_slow)  # noqa: T201
