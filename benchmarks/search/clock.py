"""What time is measured by. A module of its own: processes that serve import nothing heavy."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Literal

Clock = Callable[[], float]
ClockName = Literal["wall", "processor"]
CLOCKS: Mapping[ClockName, Clock] = {"wall": time.perf_counter, "processor": time.process_time}
