"""Generates captions for the pictures of an index that have no human caption."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hasse.index.store import Index
from hasse.index.text.query import terms_of
from hasse.index.types import ImageRow
from hasse.models.captioning.phrases import PhraseWriter
from hasse.models.images.sidecars import write_sidecar
from hasse.service.writing.draft import Draft

_BLOCK = 256  # pictures whose captions become visible together


def describe_index(
    index: Index,
    writer: PhraseWriter,
    *,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[int, int]:
    """Add the first caption that is generated for each picture without human captions.

    Pictures with a caption of this writer are left out, so a repeated call continues a stopped
    one. Captions of another writer are replaced. Other processes may change the index meanwhile.

    Returns:
        The number of added captions, and of pictures that got none.
    """
    author = f"{writer.encoder.name} {writer.fingerprint[:12]}"
    images, captions = index.catalog.all_rows()
    described = {row.image_id for row in captions if row.written_by in (None, author)}
    remaining = [image for image in images if image.id not in described]
    added = without = 0
    for start in range(0, len(remaining), _BLOCK):
        block = {image.id: image for image in remaining[start : start + _BLOCK]}
        points = index.points("image", list(block))
        texts: dict[int, str] = {}
        try:
            for at, (image_id, point) in enumerate(points.items(), start=start + 1):
                if written := writer.describe(point):
                    texts[image_id] = written[0].text
                else:
                    without += 1
                report(at, len(remaining))
        finally:  # store the captions so far if the command is stopped
            added += _add_captions(index, writer, author, texts, block)
    return added, without


def write_sidecars(index: Index) -> tuple[int, int]:
    """Write generated captions, and their words as keywords, to XMP files beside the pictures.

    Pictures in the index's own folder get none.

    Returns:
        The number of files written, and of files not written because another program's file is
        there or the folder is read-only.
    """
    texts: dict[int, list[str]] = {}
    images, captions = index.catalog.all_rows()
    for caption in captions:
        if caption.written_by is not None:
            texts.setdefault(caption.image_id, []).append(caption.text)
    written = refused = 0
    for image in images:
        path = index.path_of(image)
        if image.id in texts and not path.is_relative_to(index.folder) and path.is_file():
            keywords = [term.written for text in texts[image.id] for term in terms_of(text)]
            try:
                is_written = write_sidecar(path, texts[image.id], [*dict.fromkeys(keywords)])
            except OSError:
                is_written = False
            written, refused = written + is_written, refused + (not is_written)
    return written, refused


def _add_captions(
    index: Index,
    writer: PhraseWriter,
    author: str,
    texts: Mapping[int, str],
    images: Mapping[int, ImageRow],
) -> int:
    """Add captions to unchanged images without human captions; return the number added."""
    points = writer.encoder.model.encode_captions(list(texts.values()))
    with index.writing() as index_writer:
        now, present = index.catalog.images(list(texts)), index.catalog.captions_of(list(texts))
        draft = Draft(index.catalog)
        for (id_, text), point in zip(texts.items(), points, strict=True):
            is_unchanged = id_ in now and now[id_].sha256 == images[id_].sha256
            if is_unchanged and all(row.written_by is not None for row in present[id_]):
                draft.add_caption(id_, text, point, written_by=author)
        if draft.captions:
            index_writer.change(draft.make_change())
    index.announce()
    return len(draft.captions)
