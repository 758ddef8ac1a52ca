from __future__ import annotations

import numpy as np
import pytest

from hasse.models.kernels.products import Product


@pytest.mark.parametrize("shape", [(1280, 1000), (300_000, 3), (7, 1)])
def test_product_is_that_of_all_columns_at_once(shape: tuple[int, int]) -> None:
    random = np.random.default_rng(0)
    matrix, rows = random.random(shape, np.float32), random.random((5, shape[0]), np.float32)
    product = Product(matrix, len(rows))
    np.testing.assert_allclose(product.of(rows), rows @ matrix, rtol=1e-4)
    more = np.concatenate([rows, rows])
    np.testing.assert_allclose(product.of(more), more @ matrix, rtol=1e-4)
