from __future__ import annotations

import platform

import numpy as np
import pytest
import torch

from hasse.lab.encoders.text_encoder import CaptionEncoder, Ensemble, encode_captions
from hasse.models.encoders.model_config import CaptionPooling
from hasse.models.encoders.plain_text import PlainTextEncoder
from hasse.models.encoders.text_inference import Length, Points, ReadingOptions, TextInference
from hasse.models.kernels import cpu_gru
from tests.processors import printed

WORDS, SIZE = 30, 70  # more than one group of panels, and not a whole number of them
# Of many lengths; so many that the tail of a batch takes each of the ways there are.
CAPTIONS = [[(3 * row + at) % WORDS for at in range(1 + 5 * row % 13)] for row in range(23)]


def drawn(
    pooling: CaptionPooling = "max",
    length: Length = "unit",
    *,
    signed: bool = False,
    size: int = SIZE,
    backwards: bool = False,
) -> CaptionEncoder:
    torch.manual_seed(5)
    encoder = CaptionEncoder(
        WORDS, 6, size, 1.0, pooling=pooling, signed=signed, length=length, backwards=backwards
    )
    for parameter in encoder.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return encoder.eval()


def packed(encoder: CaptionEncoder | Ensemble) -> TextInference:
    return TextInference([member.packed_encoder() for member in encoder.encoders])


def plain(encoder: CaptionEncoder) -> TextInference:
    weights = {name: value.numpy() for name, value in encoder.state_dict().items()}
    reading = ReadingOptions(encoder.pooling, encoder.signed, encoder.length, encoder.backwards)
    return TextInference([PlainTextEncoder(weights, reading)])


def expected(encoder: CaptionEncoder | Ensemble, captions: list[list[int]]) -> Points:
    lengths = torch.tensor([len(caption) for caption in captions])
    rows = [torch.tensor(caption) for caption in captions]
    with torch.inference_mode():
        points: Points = encoder.points(
            torch.nn.utils.rnn.pad_sequence(rows, batch_first=True), lengths
        ).numpy()
    return points


@pytest.mark.parametrize("pooling", ["last", "max"])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("length", ["unit", "learned", "free"])
def test_points_are_those_of_the_encoder(
    pooling: CaptionPooling, signed: bool, length: Length
) -> None:
    encoder = drawn(pooling, length, signed=signed)
    for inference in (packed(encoder), plain(encoder)):
        found = inference.points(CAPTIONS)
        assert found.dtype == np.float32
        # In float32 each of both is up to 3.4e-6 from the same sums in float64.
        np.testing.assert_allclose(found, expected(encoder, CAPTIONS), atol=1e-5)


@pytest.mark.parametrize("backwards", [False, True])
def test_points_of_an_ensemble_are_those_of_its_members(backwards: bool) -> None:
    ensemble = Ensemble([drawn(size=8), drawn("last", size=8, backwards=backwards)])
    np.testing.assert_allclose(
        packed(ensemble).points(CAPTIONS), expected(ensemble, CAPTIONS), atol=1e-6
    )


@pytest.mark.parametrize("pooling", ["last", "max"])
def test_an_encoder_that_reads_backwards_reads_the_end_mark_last(
    pooling: CaptionPooling,
) -> None:
    other_way = [[*caption[:-1][::-1], caption[-1]] for caption in CAPTIONS]
    forward, backwards = drawn(pooling), drawn(pooling, backwards=True)
    for points in (
        packed(backwards).points(CAPTIONS),
        plain(backwards).points(CAPTIONS),
        expected(backwards, CAPTIONS),
    ):
        np.testing.assert_allclose(points, expected(forward, other_way), atol=1e-6)
        assert not np.allclose(points, expected(forward, CAPTIONS), atol=1e-2)


def test_a_unit_that_is_not_compiled_encodes_batch_by_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoder = drawn()
    monkeypatch.setattr(CaptionEncoder, "is_packable", False)
    found = encode_captions(encoder, CAPTIONS, 5)
    np.testing.assert_allclose(found, expected(encoder, CAPTIONS), atol=1e-6)


@pytest.mark.parametrize("first", [[[3], [70]], [[70, 3]], [[64, 70], [1, 2, 3]]])
def test_the_bits_of_a_point_do_not_depend_on_which_words_came_first(
    first: list[list[int]],
) -> None:
    torch.manual_seed(1)
    encoder = CaptionEncoder(80, 6, SIZE).eval()
    alone = packed(encoder).points([[2, 70, 66]])
    after = packed(encoder)
    after.points(first)
    np.testing.assert_array_equal(after.points([[2, 70, 66]]), alone)


@pytest.mark.parametrize("length", ["unit", "learned"])
def test_a_point_does_not_depend_on_the_captions_encoded_with_it(length: Length) -> None:
    for reader in (plain(drawn(length=length)), packed(drawn(length=length))):
        alone = np.concatenate([reader.points([caption]) for caption in CAPTIONS])
        for batch_size in (2, 5, 23):
            np.testing.assert_array_equal(reader.points(CAPTIONS, batch_size), alone)
    many = reader.points(CAPTIONS * 20)  # by several threads
    np.testing.assert_array_equal(many, np.tile(alone, (20, 1)))


def test_weights_that_float16_holds_give_the_bits_of_float32() -> None:
    encoder = drawn()
    with torch.no_grad():
        encoder.gru.recurrent_weight.copy_(encoder.gru.recurrent_weight.half().float())
    weight = encoder.gru.recurrent_weight.detach().numpy()
    assert cpu_gru.pack(weight, halves=True).dtype == np.uint16
    assert cpu_gru.pack(weight, halves=False).dtype == np.float32
    words, alive = np.array([1, 2, 3, 4, 5, 6]), np.array([3, 2, 1])
    narrow, wide = (encoder.packed_encoder(halves=halves) for halves in (True, False))
    np.testing.assert_array_equal(narrow.points(words, alive), wide.points(words, alive))


@pytest.mark.parametrize("odd", [1 + 2.0**-20, 1e6, 1e-9])
def test_one_weight_that_float16_does_not_hold_keeps_them_all(odd: float) -> None:
    weight = np.zeros((3 * SIZE, SIZE), np.float32)
    weight[7, 3] = odd
    laid_out = cpu_gru.pack(weight, halves=True)
    assert laid_out.dtype == np.float32
    assert laid_out.max() == np.float32(odd)


@pytest.mark.parametrize("pooling", ["last", "max"])
def test_nan_in_a_word_vector_shows_in_the_point(pooling: CaptionPooling) -> None:
    encoder = drawn(pooling)
    with torch.no_grad():
        encoder.embedding.weight[3] = torch.nan
    for inference in (packed(encoder), plain(encoder)):
        good, bad = inference.points([[1, 2, 4], [1, 3, 4, 5, 6]])
        assert np.isfinite(good).all()
        assert np.isnan(bad).all()


@pytest.mark.parametrize("said", [1e4, -1e4, 200.0, -200.0, 1e-6, -1e-6])
def test_gates_are_exact_far_out_and_near_zero(said: float) -> None:
    encoder = drawn("last", "free", signed=True)
    with torch.no_grad():
        encoder.gru.input_weight.fill_(said)
        encoder.embedding.weight.fill_(1.0)
        encoder.gru.input_bias.zero_()
        encoder.gru.recurrent_bias.zero_()
    captions = [[1], [2, 3]]
    for inference in (packed(encoder), plain(encoder)):
        np.testing.assert_allclose(
            inference.points(captions), expected(encoder, captions), rtol=1e-6, atol=1e-9
        )


def test_packed_weights_are_those_of_the_moment_they_were_packed() -> None:
    encoder = drawn()
    reader = encoder.packed_encoder()
    words, alive = np.array([1, 2]), np.array([1, 1])
    before = reader.points(words, alive)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.zero_()
    np.testing.assert_array_equal(reader.points(words, alive), before)


# The last one is what every processor can do.
SETS = {"x86_64": ["+avx2,+fma,+f16c", ""]}


@pytest.mark.slow
@pytest.mark.parametrize("features", SETS.get(platform.machine(), [""]))
def test_other_processors_compute_the_same_bits(features: str) -> None:
    code = """
import numpy as np
from hasse.models.kernels import cpu_gru
rng = np.random.default_rng(0)
n, lengths = 40, np.array([9, 8, 8, 7, 5, 5, 5, 3, 3, 2, 2, 1, 1])
alive = (lengths > np.arange(9)[:, None]).sum(1)
words = rng.integers(0, 7, alive.sum())
table = cpu_gru.pad_coordinates(rng.normal(size=(7, 3, n)).astype(np.float32))
weights = cpu_gru.pack(rng.normal(size=(3 * n, n)).astype(np.float16).astype(np.float32))
bias = cpu_gru.pad_coordinates(rng.normal(size=n).astype(np.float32))
out = np.full((13, len(bias)), -np.inf, np.float32)
states = np.zeros((2, *out.shape), np.float32)
cpu_gru.run(words, alive, table, weights, bias, states, out, True, False)
print(cpu_gru.WIDTH, weights.dtype, out[:, :n].view(np.uint32).tolist(), sep="|")
"""
    here, other = (printed(code, given).split("|") for given in (None, features))
    assert other[:2] == ["8", "uint16" if "f16c" in features else "float32"]
    assert other[2] == here[2]
