from __future__ import annotations

import pytest
import torch

from models.product import Product


@pytest.mark.parametrize("shape", [(4, 5), (4, 3, 5)])
def test_the_gradient_is_the_derivative(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x = torch.randn(shape, dtype=torch.double, requires_grad=True)
    weight = torch.randn(6, 5, dtype=torch.double, requires_grad=True)
    torch.testing.assert_close(Product.apply(x, weight, torch.double), x @ weight.T)
    assert torch.autograd.gradcheck(
        lambda x, weight: Product.apply(x, weight, torch.double), (x, weight)
    )


def test_all_products_are_of_the_type_and_what_comes_out_is_not() -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(40, 50, requires_grad=True), torch.randn(60, 50, requires_grad=True)
    grad = torch.randn(40, 60)
    out = Product.apply(x, weight, torch.bfloat16)
    of_x, of_weight = torch.autograd.grad(out, (x, weight), grad)
    exact = (x @ weight.T, grad @ weight, grad.T @ x)
    for found, expected in zip((out, of_x, of_weight), exact, strict=True):
        assert found.dtype == torch.float32
        assert not torch.equal(found, expected)
        torch.testing.assert_close(found, expected, rtol=0.02, atol=0.1)


def test_what_needs_no_gradient_gets_none() -> None:
    x, weight = torch.randn(4, 5), torch.randn(6, 5, requires_grad=True)
    Product.apply(x, weight, torch.bfloat16).sum().backward()
    assert x.grad is None
    assert weight.grad is not None
