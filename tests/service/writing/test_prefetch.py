"""Decoding ahead: in order, bounded, and one bad picture is one broken promise."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image as Pillow

from hasse.models.datasets import Image
from hasse.models.images.decoding import open_picture
from hasse.models.images.preprocessing import Pixels, Preprocessing
from hasse.service.writing.prefetch import BATCHES_AHEAD, decode_ahead, map_in_threads

LOOKS = Preprocessing(resize=10, crop=8)


def decode(image: Image) -> Pixels:
    return LOOKS.apply(open_picture(image.path))


def images(folder: Path, count: int) -> Iterator[Image]:
    for at in range(count):
        path = folder / f"{at}.png"
        Pillow.new("RGB", (12, 12), (at, 0, 0)).save(path)
        yield Image(at, path.name, path)


def test_batches_come_in_order_and_hold_every_image(tmp_path: Path) -> None:
    ids: list[list[int]] = []
    for batch in decode_ahead(images(tmp_path, 7), decode, 3, 2):
        ids.append([image.id for image in batch.items])
        assert {pixels.shape for pixels in batch.results} == {(1, 3, 8, 8)}
    assert ids == [[0, 1, 2], [3, 4, 5], [6]]


def test_only_a_few_batches_are_decoded_ahead(tmp_path: Path) -> None:
    taken = 0

    def counted() -> Iterator[Image]:
        nonlocal taken
        for image in images(tmp_path, 100):
            taken += 1
            yield image

    batches = decode_ahead(counted(), decode, 2, 1)
    next(batches)
    assert taken <= 2 * (BATCHES_AHEAD + 1)
    batches.close()  # type: ignore[attr-defined]


def test_damaged_picture_is_left_out_of_its_batch_alone(tmp_path: Path) -> None:
    whole = list(images(tmp_path, 3))
    whole[1].path.write_bytes(b"no picture")
    (batch,) = decode_ahead(whole, decode, 3, 1)
    assert batch.items == [whole[0], whole[2]]
    assert len(batch.results) == 2
    ((image, error),) = batch.unusable
    assert (image, error.reason) == (whole[1], "not_a_picture")


@pytest.mark.parametrize("threads", [1, 3])
def test_work_beside_each_other_comes_in_order_after_each_thread_has_begun(threads: int) -> None:
    begun: list[int] = []

    def begin() -> None:
        begun.append(threading.get_ident())

    def work(item: int) -> int:
        assert threading.get_ident() in begun
        time.sleep(0.002 * (item % 3))
        return item * item

    found = list(map_in_threads(iter(range(10)), work, threads, begin))
    assert found == [(item, item * item) for item in range(10)]
    assert len(begun) <= threads


def test_work_beside_each_other_raises_what_it_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        list(map_in_threads([1, 0, 2], lambda item: 1 / item, 2))
