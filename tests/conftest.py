"""What applies to every test."""

import gc
import os
import re
import signal
from importlib.util import find_spec
from pathlib import Path

# Before torch is imported: models in tests are tiny, and the threads of one operation would
# mostly wait for each other, which on a busy machine takes ten times as long.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# No test leaves a process behind that reads the text in its pictures.
os.environ.setdefault("HASSE_OCR", "false")

from hypothesis import HealthCheck, settings

WITHOUT_TORCH = find_spec("torch") is None
if not WITHOUT_TORCH:
    import torch

    if not torch.cuda.is_available():
        # Before Triton is imported, by whatever test comes first: without a GPU, its kernels run
        # on the CPU without being compiled.
        os.environ["TRITON_INTERPRET"] = "1"

# Until all is imported: what is imported is not garbage, and looking through it takes time.
gc.disable()

# A shell that starts the tests in the background lets them ignore Ctrl-C, and Python keeps it so;
# the tests that send it to themselves need it heard.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Nothing is too slow, neither an example nor to make one, since the machine may be busy.
# `make test` takes the profile `quick`.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("complete", PATIENT)
settings.register_profile("quick", PATIENT, max_examples=30)
settings.load_profile("complete")


# A module of tests that learns: it needs torch when it is imported.
_LEARNS = re.compile(
    r"^(?:import torch|from torch|from hasse\.(?:lab|studies)\b|from benchmarks\b"
    r"|from tests\.(?:lab|studies|compilation|device|tiny_clip|tiny_network)\b"
    r"|from tests\.tiny import .*\btiny_model\b)",
    re.M,
)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out tests of what learns where torch is not installed, as in the core of Hasse."""
    if not WITHOUT_TORCH or collection_path.suffix != ".py":
        return None
    return bool(_LEARNS.search(collection_path.read_text(encoding="utf-8"))) or None


def pytest_collection_finish() -> None:
    """Look for garbage only among what tests make: else it takes a fifth of their time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(5000, 20, 20)
    gc.enable()


def pytest_unconfigure() -> None:
    """Let go of everything, since libraries complain of objects that are left at the end."""
    gc.unfreeze()
