"""CLIP's tokenizer, which open_clip has as a table of its own, as a `tokenizer.json`."""

from __future__ import annotations

import gzip
from pathlib import Path

import tokenizers
from open_clip.tokenizer import SimpleTokenizer, default_bpe
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors

_START, _END = "<start_of_text>", "<end_of_text>"
# What a word, a digit or a run of other characters is; as in CLIP.
_PIECES = r"""'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"""


def clip_tokenizer() -> bytes:
    """Return the content of a `tokenizer.json` that gives CLIP's tokens, in lower case."""
    theirs = SimpleTokenizer()
    lines = gzip.decompress(Path(default_bpe()).read_bytes()).decode().split("\n")
    pairs = (line.split() for line in lines[1 : 1 + len(theirs.bpe_ranks)])
    merges = [(left, right) for left, right in pairs]
    made = tokenizers.Tokenizer(
        models.BPE(
            vocab=theirs.encoder,
            merges=merges,
            continuing_subword_prefix="",
            end_of_word_suffix="</w>",
            fuse_unk=False,
        )
    )
    made.normalizer = normalizers.Sequence(
        [normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    )
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), behavior="removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    made.decoder = decoders.ByteLevel()
    special = [(token, theirs.encoder[token]) for token in (_START, _END)]
    made.post_processor = processors.TemplateProcessing(
        single=f"{_START} $A {_END}", special_tokens=special
    )
    made.add_special_tokens([_START, _END])
    return str(made.to_str()).encode()
