from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from hasse.lab.encoders.gru import GRU


def reference(gru: GRU, vectors: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Return all states of torch's own, (B, T, N), and the last ones, (B, N)."""
    theirs = nn.GRU(vectors.shape[2], gru.recurrent_weight.shape[1], batch_first=True).double()
    theirs.load_state_dict(
        {
            "weight_ih_l0": gru.input_weight,
            "weight_hh_l0": gru.recurrent_weight,
            "bias_ih_l0": gru.input_bias,
            "bias_hh_l0": gru.recurrent_bias,
        }
    )
    packed = pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False)
    states, last = theirs(packed)
    return pad_packed_sequence(states, batch_first=True)[0], last[0]


@pytest.fixture
def ragged() -> tuple[GRU, Tensor, Tensor]:
    torch.manual_seed(3)
    gru = GRU(5, 7).double()
    nn.init.normal_(gru.input_bias)
    nn.init.normal_(gru.recurrent_bias)
    # Wider than the longest, as a part of a batch can be.
    vectors = torch.randn(6, 11, 5, dtype=torch.double, requires_grad=True)
    return gru, vectors, torch.tensor([4, 9, 1, 4, 2, 9])


def test_the_states_are_those_of_torch(ragged: tuple[GRU, Tensor, Tensor]) -> None:
    gru, vectors, lengths = ragged
    every, last = reference(gru, vectors, lengths)
    torch.testing.assert_close(gru(vectors, lengths, torch.double), last)
    past = torch.arange(every.shape[1])[None] >= lengths[:, None]
    for signed, seen in ((False, every.abs()), (True, every)):
        pooled = seen.masked_fill(past[..., None], -torch.inf).amax(1)
        torch.testing.assert_close(
            gru.max_pool(vectors, lengths, torch.double, signed=signed), pooled
        )


@pytest.mark.parametrize("read", [GRU.forward, GRU.max_pool, partial(GRU.max_pool, signed=True)])
def test_the_gradient_is_the_derivative(
    ragged: tuple[GRU, Tensor, Tensor], read: Callable[..., Tensor]
) -> None:
    gru, vectors, lengths = ragged

    def states(vectors: Tensor, *_: Tensor) -> Tensor:
        return read(gru, vectors, lengths, torch.double)

    assert torch.autograd.gradcheck(states, (vectors, *gru.parameters()))


def test_weights_begin_as_those_of_the_reference() -> None:
    gru = GRU(30, 20)
    assert 0.09 < gru.input_weight.max() <= 0.1
    assert -0.1 <= gru.input_weight.min() < -0.09
    for gate in gru.recurrent_weight.chunk(3):
        torch.testing.assert_close(gate @ gate.T, torch.eye(20))
    assert not gru.input_bias.any()
    assert not gru.recurrent_bias.any()


def test_words_past_the_end_are_not_read(ragged: tuple[GRU, Tensor, Tensor]) -> None:
    gru, vectors, lengths = ragged
    spoiled = vectors.detach().clone()
    for row, length in zip(spoiled, lengths.tolist(), strict=True):
        row[length:] = torch.nan
    assert gru(spoiled, lengths, torch.double).isfinite().all()


def test_bfloat16_products_stay_close(ragged: tuple[GRU, Tensor, Tensor]) -> None:
    gru, vectors, lengths = ragged
    gru, vectors = gru.float(), vectors.detach().float().requires_grad_()
    exact, rough = gru(vectors, lengths), gru(vectors, lengths, torch.bfloat16)
    assert rough.dtype == torch.float32
    torch.testing.assert_close(rough, exact, rtol=0.05, atol=0.05)
    slopes = [torch.autograd.grad(out.square().sum(), vectors)[0] for out in (exact, rough)]
    torch.testing.assert_close(slopes[1], slopes[0], rtol=0.1, atol=0.1)
