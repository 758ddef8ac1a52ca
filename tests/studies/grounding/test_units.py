"""Units that read captions beside the GRU: they read what is there, and in which order."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from hasse.models.encoders.model_config import CaptionPooling
from hasse.studies.grounding.lstm import LSTM, BiLSTM
from hasse.studies.grounding.sentence_model import SentenceEncoder, SentenceModelConfig
from hasse.studies.grounding.word_sum import WordSum
from tests.device import DEVICE

LENGTHS = torch.tensor([2, 5, 1, 3])


def encoder_of(kind: str, dimension: int, pooling: CaptionPooling) -> SentenceEncoder:
    shape = SentenceModelConfig(
        dimension=dimension, word_dimension=6, text_encoder=kind, caption_pooling=pooling
    )
    return SentenceEncoder(shape, 9, backwards=False)


def sequences(inputs: int = 5) -> Tensor:
    torch.manual_seed(0)
    return torch.randn(len(LENGTHS), 5, inputs)


def test_lstm_without_peepholes_is_torchs() -> None:
    ours, vectors = LSTM(5, 7, peepholes=False).double(), sequences().double()
    theirs = nn.LSTM(5, 7, batch_first=True).double()
    rows = torch.cat([torch.arange(7) + 7 * gate for gate in (0, 1, 3, 2)])  # torch: i, f, g, o
    with torch.no_grad():
        ours.bias.normal_()
        theirs.load_state_dict(
            {
                "weight_ih_l0": ours.input_weight[rows],
                "weight_hh_l0": ours.recurrent_weight[rows],
                "bias_ih_l0": ours.bias[rows],
                "bias_hh_l0": torch.zeros(28),
            }
        )
    states, _ = theirs(vectors)
    last = states[torch.arange(len(LENGTHS)), LENGTHS - 1]
    torch.testing.assert_close(ours(vectors, LENGTHS), last)
    most = [states[row, :length].abs().amax(0) for row, length in enumerate(LENGTHS)]
    torch.testing.assert_close(ours.max_pool(vectors, LENGTHS), torch.stack(most))


def test_lstm_peepholes_follow_the_papers_equations() -> None:
    lstm, vectors = LSTM(5, 7), sequences()
    assert lstm.peephole is not None
    with torch.no_grad():
        for weight in lstm.parameters():
            weight.normal_()
    state = cell = torch.zeros(7)
    for word in vectors[1]:
        said = lstm.input_weight @ word + lstm.recurrent_weight @ state + lstm.bias
        i, f, o, new = said.chunk(4)
        i, f = (i + lstm.peephole[0] * cell).sigmoid(), (f + lstm.peephole[1] * cell).sigmoid()
        cell = f * cell + i * new.tanh()
        state = (o + lstm.peephole[2] * cell).sigmoid() * cell.tanh()
    torch.testing.assert_close(lstm(vectors, LENGTHS)[1], state)


def test_bilstm_is_the_larger_of_both_final_states() -> None:
    bilstm, vectors = BiLSTM(5, 7), sequences()
    for row, length in enumerate(LENGTHS.tolist()):
        alone, whole = vectors[row : row + 1, :length], torch.tensor([length])
        turned = bilstm.backwards(alone.flip(1), whole)
        expected = torch.maximum(bilstm.forwards(alone, whole), turned)[0]
        torch.testing.assert_close(bilstm(vectors, LENGTHS)[row], expected)


def test_word_sum_adds_words_and_leaves_out_the_end_mark() -> None:
    vectors = sequences()
    found = WordSum(5, 5)(vectors, LENGTHS)
    torch.testing.assert_close(found[1], vectors[1, :4].sum(0))
    assert found[2].abs().sum() == 0  # of no word
    mapped = WordSum(5, 7)
    assert mapped.weight is not None
    torch.testing.assert_close(mapped(vectors, LENGTHS), found @ mapped.weight.T)


@pytest.mark.parametrize("kind", ["gru", "lstm", "bilstm", "sum"])
@pytest.mark.parametrize("pooling", ["last", "max"])
def test_renumbering_a_unit_permutes_points(kind: str, pooling: CaptionPooling) -> None:
    torch.manual_seed(0)
    encoder = encoder_of(kind, 6, pooling)
    tokens, lengths = torch.tensor([[3, 4, 2], [5, 2, 0]]), torch.tensor([3, 2])
    before, order = encoder.points(tokens, lengths), torch.randperm(6)
    encoder.renumber(order)
    torch.testing.assert_close(encoder.points(tokens, lengths), before[:, order])


@pytest.mark.parametrize("kind", ["lstm", "bilstm", "sum"])
def test_unit_gives_a_caption_among_others_what_it_gives_it_alone(kind: str) -> None:
    torch.manual_seed(0)
    encoder = encoder_of(kind, 8, "max")
    tokens, lengths = torch.tensor([[3, 4, 2], [5, 2, 0]]), torch.tensor([3, 2])
    alone = encoder.points(tokens[1:, :2], lengths[1:])
    together = encoder.to(DEVICE).points(tokens.to(DEVICE), lengths)
    torch.testing.assert_close(together[1:].cpu(), alone)
