"""Searches by a picture, over HTTP and in a program's own process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hasse
from models.checkpoints import checkpoint
from service.core import by_picture
from service.core.stages import Stages
from service.errors import ServiceError
from service.picture_schemas import SimilarOptions
from service.schemas import ImageAnswer
from tests.oracle import pairwise_violation
from tests.service.client import Client
from tests.service.collection import IMAGES, picture, png, without_paths
from tests.service.problems import problem


def test_search_images_by_an_upload_finds_what_is_like_it(client: Client, collection: Path) -> None:
    points = checkpoint.load(collection.parent / "model").model.encode_images(
        [picture(at) for at in range(IMAGES)]
    )
    lacks, has = (
        pairwise_violation(points, points[[3]])[:, 0],
        pairwise_violation(points[[3]], points)[0],
    )
    for similar, expected in (
        ("", lacks + has),
        ("alike", lacks + has),
        ("more_specific", lacks),
        ("more_general", has),
    ):
        form = {"k": "20", "similar": similar}
        response = client.post("/search/images", data=form, files={"image": ("a.png", png(3))})
        answer = ImageAnswer.model_validate_json(response.content)
        assert len(answer.hits) == answer.searched == IMAGES
        assert answer.certified
        assert [hit.violation for hit in answer.hits] == sorted(
            hit.violation for hit in answer.hits
        )
        for hit in answer.hits:
            assert np.isclose(hit.violation, expected[hit.image_id - 1000], atol=1e-5)
            assert hit.probability is None
        assert 1003 in [hit.image_id for hit in answer.hits if hit.violation < 1e-6]


def test_pages_of_similar_images_put_together_are_the_whole(client: Client) -> None:
    def page(offset: int, k: int) -> list[int]:
        answer = client.run(
            by_picture.similar(client.engine, 1003, SimilarOptions(offset=offset, k=k), Stages())
        )
        assert [hit.rank for hit in answer.hits] == [
            *range(offset + 1, offset + 1 + len(answer.hits))
        ]
        return [hit.image_id for hit in answer.hits]

    whole = page(0, 20)
    assert sorted(whole) == [at for at in range(1000, 1012) if at != 1003]
    assert page(0, 4) + page(4, 4) + page(8, 4) == whole


def test_similar_images_of_an_absent_image_are_not_found(client: Client) -> None:
    with pytest.raises(ServiceError, match="no image with the id 7"):
        client.run(by_picture.similar(client.engine, 7, SimilarOptions(), Stages()))


def test_search_images_with_an_unknown_relation_is_refused(client: Client) -> None:
    files = {"image": ("a.png", png(3))}
    response = client.post("/search/images", data={"similar": "same"}, files=files)
    assert problem(response, 422, "invalid").errors[0].field == "similar"


def test_local_index_finds_similar_images_as_the_service_does(
    client: Client, collection: Path
) -> None:
    form = {"k": "3", "similar": "more_general"}
    served = client.post("/search/images", data=form, files={"image": png(3)}).json()
    with hasse.open_index(collection, device="cpu") as index:
        found = index.search_similar(png(3), "more_general", k=3)
    assert without_paths(found.model_dump(mode="json")) == without_paths(served)
