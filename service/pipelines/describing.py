"""Captions written for the pictures of an index that have none by people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from hasse.index.store import Index
from hasse.index.text.query import terms_of
from hasse.index.types import ImageRow
from hasse.models.captioning import DRAWS
from hasse.models.captioning.ranking import WrittenCaption
from hasse.models.captioning.writing import Describer
from hasse.models.images.sidecars import write_sidecar
from hasse.service.verdict import is_true
from hasse.service.writing.draft import Draft

_BLOCK = 256  # pictures whose captions become visible together


def describe_index(
    index: Index,
    writer: Describer,
    *,
    draws: int = DRAWS,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[int, int]:
    """Add the first caption written for each picture without captions of people.

    Pictures that this captioner has written for are left out, so a call goes on where an earlier
    one was stopped. What another captioner wrote is replaced. Others may change the index
    meanwhile.

    Returns:
        How many captions were added, and how many pictures got none because nothing is surely true
        of them.
    """
    author = f"{writer.encoder.name} {writer.fingerprint[:12]}"
    images, captions = index.catalog.all_rows()
    described = {row.image_id for row in captions if row.written_by in (None, author)}
    left = [image for image in images if image.id not in described]
    added = without = 0
    for start in range(0, len(left), _BLOCK):
        block = {image.id: image for image in left[start : start + _BLOCK]}
        points = index.points("image", list(block))
        texts: dict[int, str] = {}
        try:
            for at, (image_id, point) in enumerate(points.items(), start=start + 1):
                text = next(_true(writer.describe(point, draws)), None)
                if text is None:
                    without += 1
                else:
                    texts[image_id] = text
                report(at, len(left))
        finally:  # what was written is kept when it is stopped
            added += _add(index, writer, author, texts, block)
    return added, without


def _true(written: Iterable[WrittenCaption]) -> Iterator[str]:
    """Yield the captions that are called true; all those of a model that is not calibrated."""
    return (one.text for one in written if one.probability is None or is_true(one.probability))


def write_sidecars(index: Index) -> tuple[int, int]:
    """Write generated captions and their words as keywords to XMP files beside the pictures.

    Pictures inside the index have none.

    Returns:
        How many were written, and for how many pictures there is one of somebody else, or the
        folder cannot be written.
    """
    texts: dict[int, list[str]] = {}
    images, captions = index.catalog.all_rows()
    for caption in captions:
        if caption.written_by is not None:
            texts.setdefault(caption.image_id, []).append(caption.text)
    written = left = 0
    for image in images:
        place = index.path_of(image)
        if image.id in texts and not place.is_relative_to(index.folder) and place.is_file():
            keywords = [term.written for text in texts[image.id] for term in terms_of(text)]
            try:
                ours = write_sidecar(place, texts[image.id], [*dict.fromkeys(keywords)])
            except OSError:
                ours = False
            written, left = written + ours, left + (not ours)
    return written, left


def _add(
    index: Index,
    writer: Describer,
    author: str,
    texts: Mapping[int, str],
    images: Mapping[int, ImageRow],
) -> int:
    """Add captions to images that are still the same and have none of people; return how many."""
    points = writer.encoder.model.encode_captions(list(texts.values()))
    with index.writing() as change:
        now, present = index.catalog.images(list(texts)), index.catalog.captions_of(list(texts))
        draft = Draft(index.catalog)
        for (id_, text), point in zip(texts.items(), points, strict=True):
            same = id_ in now and now[id_].sha256 == images[id_].sha256
            if same and all(row.written_by is not None for row in present[id_]):
                draft.add_caption(id_, text, point, written_by=author)
        if draft.captions:
            change.change(draft.make_change())
    index.announce()
    return len(draft.captions)
