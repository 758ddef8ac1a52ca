from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hasse.index.errors import DamagedIndexError
from hasse.index.kernels.arrays import map_array


@pytest.mark.parametrize(
    ("dtype", "shape"), [(np.float32, (3, 2)), (np.float32, (2,)), (np.int32, (2, 3))]
)
def test_array_that_is_not_the_one_expected_is_refused_with_both_named(
    dtype: type[np.generic], shape: tuple[int, ...], tmp_path: Path
) -> None:
    path = tmp_path / "points.npy"
    np.save(path, np.zeros((2, 3), np.float32))
    assert map_array(path, np.float32, (2, 3)).shape == (2, 3)
    said = f"points.npy holds float32 (2, 3) and should hold {np.dtype(dtype)} {shape}: "
    with pytest.raises(DamagedIndexError) as refusal:
        map_array(path, dtype, shape)
    assert said in str(refusal.value)


def test_file_that_is_no_array_is_refused_and_runs_no_code(tmp_path: Path) -> None:
    path = tmp_path / "points.npy"
    for content in (b"{}", b""):
        path.write_bytes(content)
        with pytest.raises(DamagedIndexError, match=r"points\.npy is not an array file"):
            map_array(path, np.float32, (2, 3))
    np.save(path, np.array([object], object))
    with pytest.raises(DamagedIndexError, match=r"points\.npy is not an array file"):
        map_array(path, np.float32, (1,))
