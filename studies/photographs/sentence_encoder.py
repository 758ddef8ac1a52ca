"""A pretrained encoder of sentences that stays as it is, from a folder of transformers' files."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hasse.models.errors import HasseError, pip_install

_WEIGHTS = "model.safetensors"
_LONGEST = 64  # tokens of a text that are read


class SentenceEncoderError(HasseError):
    """A sentence encoder that cannot be used; the message says why and what to do."""


class SentenceEncoder:
    """Encodes texts by the states of a transformer such as all-MiniLM-L6-v2.

    Attributes:
        name: the folder's.
        fingerprint: the SHA-256 of its weights.
        dimension: numbers of a text's features.
    """

    def __init__(self, folder: Path, device: str | torch.device = "cpu") -> None:
        """Read the model of a folder: config.json, model.safetensors and its tokenizer.

        Raises:
            SentenceEncoderError: it is not there, cannot be read, or transformers is missing.
        """
        if find_spec("transformers") is None:
            raise SentenceEncoderError(
                f"a sentence encoder needs a package that is missing: {pip_install('text')}"
            )
        weights = folder / _WEIGHTS
        if not weights.is_file():
            raise SentenceEncoderError(
                f"there is no {weights}: name the folder of a sentence encoder, or download one, "
                f"such as sentence-transformers/all-MiniLM-L6-v2, with --download-weights"
            )
        from transformers import AutoModel, AutoTokenizer
        from transformers.utils.logging import disable_progress_bar

        disable_progress_bar()
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
            self._model: Any = AutoModel.from_pretrained(
                folder, local_files_only=True, use_safetensors=True
            )
        except (OSError, ValueError, KeyError) as error:
            reason = str(error).splitlines()[0]
            raise SentenceEncoderError(f"{folder} holds no sentence encoder ({reason})") from error
        self._model.eval().to(device)
        self._device = device
        self.name = folder.absolute().name
        self.fingerprint = hashlib.sha256(weights.read_bytes()).hexdigest()
        self.dimension = 2 * int(self._model.config.hidden_size)

    @torch.inference_mode()
    def features(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the mean and the largest of the states of each text's tokens: (B, dimension)."""
        given = self._tokenizer(
            list(texts), padding=True, truncation=True, max_length=_LONGEST, return_tensors="pt"
        ).to(self._device)
        states = self._model(**given).last_hidden_state  # (B, T, F)
        there = given["attention_mask"][..., None].bool()
        mean = (states * there).sum(1) / there.sum(1)
        largest = states.masked_fill(~there, -torch.inf).amax(1)
        found: NDArray[np.float32] = torch.cat([mean, largest], 1).float().cpu().numpy()
        return found
