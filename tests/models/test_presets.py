from __future__ import annotations

from models.presets import PRESETS
from models.score import SCORES


def test_each_score_of_the_paper_has_the_preset_of_its_name() -> None:
    for score in SCORES:
        config = PRESETS[score].config
        assert config.model.score == score
        assert (config.model.dimension, config.model.word_dimension) == (1024, 300)
        assert config.model.backbone == "vgg19"
        assert config.margin == (0.2 if score == "cosine" else 0.05)
        assert (config.batch_size, config.captions_per_image) == (128, 1)
        assert (config.learning_rate, config.clip_norm) == (1e-3, 2.0)
