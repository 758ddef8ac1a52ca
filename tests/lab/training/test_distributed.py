from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file

from hasse.lab.training.distributed import World
from hasse.lab.training.state import read_notes
from hasse.models.checkpoints.model_folder import WEIGHTS
from tests.lab.training.colours import run, weights
from tests.torchrun import torchrun


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes have trained; see `processes`."""
    folder = tmp_path_factory.mktemp("processes")
    torchrun("tests.models.processes", folder)
    return folder


@given(count=st.integers(1, 50), size=st.integers(1, 9))
def test_parts_are_equally_long_and_their_order_is_kept(count: int, size: int) -> None:
    parts = [World(rank=rank, size=size).part(count) for rank in range(size)]
    assert len({len(part) for part in parts}) == 1
    assert np.array_equal(np.concatenate(parts)[:count], np.arange(count))
    assert max(part.max() for part in parts) == count - 1, "what is dropped can be encoded"
    assert size == 1 or len(parts[0]) > 1


@pytest.mark.slow
def test_two_processes_learn_what_one_learns(trained: Path, tmp_path: Path) -> None:
    run(tmp_path)
    one, two = (load_file(folder / WEIGHTS) for folder in (tmp_path, trained / "whole"))
    assert one.keys() == two.keys()
    for name in one:
        np.testing.assert_allclose(one[name], two[name], rtol=0, atol=2e-4, err_msg=name)


@pytest.mark.slow
def test_all_processes_stop_when_one_is_told_to_and_go_on_to_the_same_weights(
    trained: Path,
) -> None:
    assert weights(trained / "stopped") == weights(trained / "whole")


@pytest.mark.slow
def test_a_network_learns_in_two_processes(trained: Path) -> None:
    notes = read_notes(trained / "pixels")
    assert notes is not None
    history = notes["history"]
    assert history[-1]["loss"] < history[0]["loss"] / 2, [epoch["loss"] for epoch in history]
