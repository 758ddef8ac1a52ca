from __future__ import annotations

import platform

import numpy as np
import pytest
import torch

from models.encoders.packed_text_encoder import PackedEncoder
from models.encoders.text_encoder import CaptionEncoder, Length, Members, Reading
from models.encoders.text_inference import Points, Reader
from models.kernels import cpu_gru
from tests.processors import printed

WORDS, SIZE = 30, 70  # more than one group of panels, and not a whole number of them
# Of many lengths; so many that the tail of a batch takes each of the ways there are.
CAPTIONS = [[(3 * row + at) % WORDS for at in range(1 + 5 * row % 13)] for row in range(23)]


def drawn(
    reading: Reading = "join",
    length: Length = "unit",
    *,
    signed: bool = False,
    size: int = SIZE,
    backwards: bool = False,
) -> CaptionEncoder:
    torch.manual_seed(5)
    encoder = CaptionEncoder(
        WORDS, 6, size, 1.0, reading=reading, signed=signed, length=length, backwards=backwards
    )
    for parameter in encoder.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return encoder.eval()


def expected(encoder: CaptionEncoder | Members, captions: list[list[int]]) -> Points:
    lengths = torch.tensor([len(caption) for caption in captions])
    rows = [torch.tensor(caption) for caption in captions]
    with torch.inference_mode():
        points: Points = encoder.points(
            torch.nn.utils.rnn.pad_sequence(rows, batch_first=True), lengths
        ).numpy()
    return points


@pytest.mark.parametrize("reading", ["last", "join"])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("length", ["unit", "learned", "free"])
def test_points_are_those_of_the_encoder(reading: Reading, signed: bool, length: Length) -> None:
    encoder = drawn(reading, length, signed=signed)
    found = Reader(encoder).points(CAPTIONS)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected(encoder, CAPTIONS), atol=3e-6)


@pytest.mark.parametrize("backwards", [False, True])
def test_so_are_those_of_several_members(backwards: bool) -> None:
    members = Members([drawn(size=8), drawn("last", size=8, backwards=backwards)])
    np.testing.assert_allclose(
        Reader(members).points(CAPTIONS), expected(members, CAPTIONS), atol=1e-6
    )


@pytest.mark.parametrize("reading", ["last", "join"])
def test_who_reads_backwards_reads_the_last_word_first_and_the_end_mark_last(
    reading: Reading,
) -> None:
    other_way = [[*caption[:-1][::-1], caption[-1]] for caption in CAPTIONS]
    forward, backwards = drawn(reading), drawn(reading, backwards=True)
    for points in (Reader(backwards).points(CAPTIONS), expected(backwards, CAPTIONS)):
        np.testing.assert_allclose(points, expected(forward, other_way), atol=1e-6)
        assert not np.allclose(points, expected(forward, CAPTIONS), atol=1e-2)


def test_a_gpu_reads_batch_by_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = drawn()
    reader = Reader(encoder)
    monkeypatch.setattr(reader, "_on_cpu", reader._on_gpu)
    np.testing.assert_allclose(reader.points(CAPTIONS, 5), expected(encoder, CAPTIONS), atol=1e-6)


@pytest.mark.parametrize("length", ["unit", "learned"])
def test_a_point_does_not_depend_on_what_it_is_read_with(length: Length) -> None:
    reader = Reader(drawn(length=length))
    alone = np.concatenate([reader.points([caption]) for caption in CAPTIONS])
    for batch_size in (2, 5, 23):
        np.testing.assert_array_equal(reader.points(CAPTIONS, batch_size), alone)
    many = reader.points(CAPTIONS * 20)  # by several threads
    np.testing.assert_array_equal(many, np.tile(alone, (20, 1)))


def test_weights_that_float16_holds_give_the_bits_of_float32(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoder = drawn()
    with torch.no_grad():
        encoder.gru.recurrent_weight.copy_(encoder.gru.recurrent_weight.half().float())
    weight = encoder.gru.recurrent_weight.detach().numpy()
    monkeypatch.setattr(cpu_gru, "_READS_HALVES", True)
    assert cpu_gru.packed(weight).dtype == np.uint16
    read = Reader(encoder).points(CAPTIONS)
    monkeypatch.setattr(cpu_gru, "_READS_HALVES", False)
    assert cpu_gru.packed(weight).dtype == np.float32
    np.testing.assert_array_equal(Reader(encoder).points(CAPTIONS), read)


@pytest.mark.parametrize("odd", [1 + 2.0**-20, 1e6, 1e-9])
def test_one_weight_that_float16_does_not_hold_keeps_them_all(odd: float) -> None:
    weight = np.zeros((3 * SIZE, SIZE), np.float32)
    weight[7, 3] = odd
    packed = cpu_gru.packed(weight)
    assert packed.dtype == np.float32
    assert packed.max() == np.float32(odd)


@pytest.mark.parametrize("reading", ["last", "join"])
def test_what_is_not_a_number_is_not_hidden(reading: Reading) -> None:
    encoder = drawn(reading)
    with torch.no_grad():
        encoder.embedding.weight[3] = torch.nan
    good, bad = Reader(encoder).points([[1, 2, 4], [1, 3, 4, 5, 6]])
    assert np.isfinite(good).all()
    assert np.isnan(bad).all()


@pytest.mark.parametrize("said", [1e4, -1e4, 200.0, -200.0, 1e-6, -1e-6])
def test_gates_hold_far_out_and_near_zero(said: float) -> None:
    encoder = drawn("last", "free", signed=True)
    with torch.no_grad():
        encoder.gru.input_weight.fill_(said)
        encoder.embedding.weight.fill_(1.0)
        encoder.gru.input_bias.zero_()
        encoder.gru.recurrent_bias.zero_()
    captions = [[1], [2, 3]]
    np.testing.assert_allclose(
        Reader(encoder).points(captions), expected(encoder, captions), rtol=1e-6, atol=1e-9
    )


def test_weights_are_those_of_the_moment() -> None:
    encoder = drawn()
    packed = PackedEncoder(encoder)
    words, alive = np.array([1, 2]), np.array([1, 1])
    before = packed.read(words, alive)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.zero_()
    np.testing.assert_array_equal(packed.read(words, alive), before)


# The last one is what every processor can do.
SETS = {"x86_64": ["+avx2,+fma,+f16c", ""]}


@pytest.mark.slow
@pytest.mark.parametrize("features", SETS.get(platform.machine(), [""]))
def test_other_processors_compute_the_same_bits(features: str) -> None:
    code = """
import numpy as np
from models.kernels import cpu_gru
rng = np.random.default_rng(0)
n, lengths = 40, np.array([9, 8, 8, 7, 5, 5, 5, 3, 3, 2, 2, 1, 1])
alive = (lengths > np.arange(9)[:, None]).sum(1)
words = rng.integers(0, 7, alive.sum())
table = cpu_gru.widened(rng.normal(size=(7, 3, n)).astype(np.float32))
weights = cpu_gru.packed(rng.normal(size=(3 * n, n)).astype(np.float16).astype(np.float32))
bias = cpu_gru.widened(rng.normal(size=n).astype(np.float32))
out = np.full((13, len(bias)), -np.inf, np.float32)
states = np.zeros((2, *out.shape), np.float32)
cpu_gru.read(words, alive, table, weights, bias, states, out, True, False)
print(cpu_gru.WIDTH, weights.dtype, out[:, :n].view(np.uint32).tolist(), sep="|")
"""
    here, other = (printed(code, given).split("|") for given in (None, features))
    assert other[:2] == ["8", "uint16" if "f16c" in features else "float32"]
    assert other[2] == here[2]
