"""What people give to a picture outlives every change that machines make."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from hasse.index.catalog.schema import GIVEN
from hasse.index.store import Index
from hasse.index.types import Points
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.images.inspection import PictureFacts
from hasse.service.writing.annotations import Annotation
from hasse.service.writing.batch_writer import BatchWriter, Deletion, NewImage
from hasse.service.writing.folders.encoders import Encoders
from hasse.service.writing.folders.forget import forget
from hasse.service.writing.folders.scan import scan
from hasse.service.writing.folders.sync import FolderSync
from hasse.service.writing.image_source import ImageSource
from tests.service.writing.folders.folder import draw

TEXT, KEYWORD = "our cabin in the snow", "zander"


class Library:
    """A library of one folder, changed as people and as machines change it."""

    def __init__(self, place: Path, index: Index, loaded: Checkpoint) -> None:
        self.folder, self.index, self.loaded = place / "pictures", index, loaded
        self.file = self.folder / "a.png"
        self.folder.mkdir()
        draw(self.file, 1)
        draw(self.folder / "always.png", 2)
        self.bytes = self.file.read_bytes()
        self.writer = BatchWriter(index, index.announce)
        self.sync()

    def sync(self, *, allow_empty: bool = True) -> None:
        locations = self.index.catalog.locations(self.index.folder)
        seen = scan([self.folder], locations=locations, index_folder=self.index.folder)
        encoders = Encoders(lambda: self.loaded, lambda: ImageSource(workers=1))
        FolderSync(self.index, seen, remove=True, allow_empty=allow_empty).apply(encoders)

    def id(self) -> int:
        image = self.index.catalog.image_of(sha256(self.bytes).hexdigest())
        assert image is not None
        return image.id

    def points(self, count: int) -> Points:
        return np.ones((count, self.index.model.dimension), np.float32)

    def annotate(self, text: str = TEXT) -> None:
        given = Annotation([self.id()], [text], [KEYWORD], self.points(1))
        assert self.writer.run("annotate", [given]) == [None]

    def send(self) -> None:
        facts = PictureFacts(sha256(self.bytes).hexdigest(), ".png", 64, 48, None)
        known = self.index.catalog.given_texts([facts.sha256]).get(facts.sha256, [])
        texts = list(
            dict.fromkeys([TEXT, *(each.text for each in known if each.source == "caption")])
        )
        sent = NewImage(
            self.bytes,
            facts,
            "sent.png",
            "",
            None,
            self.points(1)[0],
            texts,
            self.points(len(texts)),
        )
        self.writer.run("add", [sent])

    def forget(self) -> None:
        locations = self.index.catalog.locations(self.index.folder)
        (name,) = locations.roots
        forget(self.index, locations.folders[name])

    def said(self) -> set[str]:
        texts = self.index.catalog.metadata(self.id()).texts
        return {text for source, text in texts if source in ("caption", "added keyword")}


@pytest.fixture
def library(tmp_path: Path, index: Index, model: Checkpoint) -> Library:
    return Library(tmp_path, index, model)


def remove_file(library: Library) -> None:
    library.file.unlink()
    library.sync()


def put_back(library: Library) -> None:
    library.file.write_bytes(library.bytes)
    library.sync()


# What machines do between a person's text and the next look at the picture.
EVENTS: dict[str, list[Callable[[Library], object]]] = {
    "the file goes and comes back": [remove_file, put_back],
    "the file comes back under another name": [
        remove_file,
        lambda library: (library.folder / "b.png").write_bytes(library.bytes),
        Library.sync,
    ],
    "the folder is removed and added": [Library.forget, Library.sync],
    "it goes, and is sent": [remove_file, Library.send],
    "a caption file says it too, and goes": [
        lambda library: (library.folder / "a.txt").write_text(f"{TEXT}\n"),
        Library.sync,
        lambda library: (library.folder / "a.txt").unlink(),
        Library.sync,
    ],
    "the picture is removed by name and added": [
        lambda library: library.index.remove([library.id()]),
        lambda library: library.file.rename(library.folder / "c.png"),
        lambda library: FolderSync(
            library.index,
            scan([library.folder / "c.png"]),
            remove=False,
        ).apply(Encoders(lambda: library.loaded, lambda: ImageSource(workers=1))),
    ],
    "it is edited, and edited back": [
        lambda library: draw(library.file, 9),
        Library.sync,
        remove_file,
        put_back,
    ],
}


@pytest.mark.parametrize("events", EVENTS)
def test_what_a_person_wrote_is_there_whatever_machines_did(library: Library, events: str) -> None:
    library.annotate()
    for event in EVENTS[events]:
        event(library)
    assert {TEXT, KEYWORD} <= library.said()


def test_caption_that_a_file_says_first_is_a_persons_too_when_it_is_sent(library: Library) -> None:
    (library.folder / "a.txt").write_text(f"{TEXT}\n")
    library.sync()
    library.send()
    (library.folder / "a.txt").unlink()
    library.sync()
    assert TEXT in library.said()


def test_picture_that_was_sent_stays_when_its_file_in_a_folder_goes(library: Library) -> None:
    library.send()
    name = library.index.catalog.images([library.id()])[library.id()].file_name
    for event in (remove_file, Library.forget):
        event(library)
        image = library.index.catalog.images([library.id()])[library.id()]
        assert library.index.path_of(image).read_bytes() == library.bytes
        assert image.file_name == name
    assert library.said() == {TEXT}
    library.writer.run("remove", [Deletion(image.id)])
    assert not list(library.index.folder.glob("pictures/*/*"))


def test_text_that_a_person_removed_does_not_come_back(library: Library) -> None:
    library.annotate()
    gone = Annotation([library.id()], [TEXT], [], library.points(0))
    library.writer.run("unannotate", [gone])
    for event in (remove_file, put_back):
        event(library)
    assert library.said() == {KEYWORD}


def test_texts_of_pictures_that_are_gone_are_counted_and_forgotten_on_demand(
    library: Library,
) -> None:
    library.annotate()
    assert library.index.catalog.count_kept_texts() == (0, 0)
    remove_file(library)
    assert library.index.catalog.count_kept_texts() == (2, 1)
    library.index.forget_kept_texts()
    put_back(library)
    assert library.said() == set()


def test_library_without_the_table_gets_it_with_what_people_gave(library: Library) -> None:
    (library.folder / "a.txt").write_text("of a file\n")
    library.sync()
    library.annotate()
    with library.index.catalog.writing() as connection:
        GIVEN.drop(connection)
    assert library.index.catalog.given_texts(["x"]) == {}
    assert library.index.catalog.exists()
    (library.folder / "a.txt").unlink()
    for event in (remove_file, put_back):
        event(library)
    assert library.said() == {TEXT, KEYWORD}


def test_folder_within_a_forgotten_one_stays_if_it_was_added_by_its_name(
    library: Library,
    model: Checkpoint,
) -> None:
    inner = library.folder / "named"
    inner.mkdir()
    draw(inner / "inner.png", 5)
    for folder in (library.folder, inner):
        locations = library.index.catalog.locations(library.index.folder)
        seen = scan([folder], locations=locations, index_folder=library.index.folder)
        encoders = Encoders(lambda: model, lambda: ImageSource(workers=1))
        FolderSync(library.index, seen, remove=True).apply(encoders)
    library.forget()
    (image,) = library.index.catalog.all_rows()[0]
    assert image.file_name == "inner.png"
    assert library.index.catalog.locations(library.index.folder).followed_folders == [inner]
