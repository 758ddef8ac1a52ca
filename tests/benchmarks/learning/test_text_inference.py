from __future__ import annotations

import numpy as np
import pytest
import torch

from benchmarks.learning import text_inference
from hasse.models.encoders.text_encoder import CaptionEncoder


def test_both_contenders_encode_alike() -> None:
    torch.manual_seed(0)
    encoder = CaptionEncoder(9, 4, 10)
    ways = text_inference.contenders(encoder)
    captions = [[3, 4, 2], [5, 2], [6, 7, 8, 3, 2]]
    states = ways["plain"](captions)
    points = ways["ours"](captions)
    assert isinstance(states, torch.Tensor)
    expected = torch.nn.functional.normalize(states[0].abs(), dim=-1)
    np.testing.assert_allclose(np.asarray(points), expected.numpy(), atol=1e-5)


def test_the_tables_have_a_line_for_each_batch(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_inference, "BATCHES", (1, 3))
    monkeypatch.setattr(text_inference, "SCENES", 2)
    monkeypatch.setattr(torch, "set_num_threads", lambda number: None)
    text_inference.main(["--rounds", "1"])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert len(lines) == (2 + 3 * 2) + (2 + 2)
    for line, batch in zip(lines[-2:], (1, 3), strict=True):
        size, caption, image, rate = (float(cell.replace(",", "")) for cell in line.split("|")[1:5])
        assert (size, min(caption, image, rate) > 0) == (batch, True)
