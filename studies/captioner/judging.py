"""Learn to judge generated captions, from those of known truth.

Where the truth of any text is known, as it is for drawn scenes, a small network learns from
captions written for validation pictures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from hasse.studies.captioner.judgement import Judgement, JudgementInputs

_EPOCHS, _BATCH, _LEARNING_RATE, _DECAY = 6, 256, 1e-3, 1e-3


def learn(
    seen: Sequence[JudgementInputs], true: Sequence[Sequence[bool]], seed: int = 0
) -> Judgement:
    """Train a network on what was seen of each picture's texts, and their truth."""
    torch.manual_seed(seed)
    pictures = torch.from_numpy(np.stack([each.picture for each in seen]))
    counts = torch.tensor([len(each) for each in true])
    picture = torch.repeat_interleave(torch.arange(len(seen)), counts)
    points = torch.from_numpy(np.concatenate([each.points for each in seen]))
    facts = torch.from_numpy(np.concatenate([each.facts for each in seen])).float()
    truth = torch.tensor([one for each in true for one in each]).float()
    network = Judgement(points.shape[1])
    network.mean.copy_(facts.mean(0))
    network.spread.copy_(facts.std(0) + 1e-9)
    optimizer = torch.optim.AdamW(network.parameters(), _LEARNING_RATE, weight_decay=_DECAY)
    steps = _EPOCHS * math.ceil(len(truth) / _BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(_EPOCHS):
        for rows in torch.split(torch.randperm(len(truth)), _BATCH):
            logits = network(pictures[picture[rows]], points[rows], facts[rows])
            loss = binary_cross_entropy_with_logits(logits, truth[rows])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    return network.eval()
