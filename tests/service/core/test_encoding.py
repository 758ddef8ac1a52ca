"""The encoder batches captions and pictures that go well together."""

from __future__ import annotations

import asyncio

from hasse.service.core.encoding import EncodingQueue
from hasse.service.settings import Settings
from hasse.service.telemetry.metrics import Metrics
from hasse.service.telemetry.stages import Stages
from tests.service.collection import picture
from tests.tiny import tiny_model


def test_encoder_batches_captions_and_pictures_by_their_own_sizes() -> None:
    metrics = Metrics()
    model = tiny_model()
    encoder = EncodingQueue(
        model,
        Settings(caption_batch=2, picture_batch=1),
        batch_size=metrics.batch_size,
    )

    async def main() -> None:
        await encoder.captions(["a dog", "a cat"], Stages())
        pixels = model.preprocessing.apply(picture(1))
        await asyncio.gather(*(encoder.encode(pixels, Stages()) for _ in range(2)))

    asyncio.run(main())
    encoder.batcher.close()
    text = metrics.text().decode()
    assert 'hasse_batch_size_bucket{kind="caption",le="1.0"} 0.0' in text
    assert 'hasse_batch_size_bucket{kind="caption",le="2.0"} 1.0' in text
    assert 'hasse_batch_size_bucket{kind="picture",le="1.0"} 2.0' in text


def test_encoder_batches_captions_of_like_length_together() -> None:
    model, metrics = tiny_model(), Metrics()
    encoder = EncodingQueue(
        model,
        Settings(caption_batch=2),
        batch_size=metrics.batch_size,
    )

    async def main() -> None:
        for words in ((1, 64), (65, 128), (64, 65)):
            await encoder.captions([" ".join(["dog"] * count) for count in words], Stages())

    asyncio.run(main())
    encoder.batcher.close()
    text = metrics.text().decode()
    assert 'hasse_batch_size_bucket{kind="caption",le="1.0"} 2.0' in text
    assert 'hasse_batch_size_bucket{kind="caption",le="2.0"} 4.0' in text
