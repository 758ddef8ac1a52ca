"""Two nodes on this machine: shards with replicas, a front end, and the loss of a node."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from safetensors.torch import save_file

from benchmarks.cluster.nodes import ROOT, FrontEnd, Nodes
from hasse.index.store import Index
from hasse.index.types import CaptionRow, ImageRow
from hasse.lab.encoders.registry import build_backbone
from hasse.lab.features.feature_store import FeatureStore
from hasse.models.datasets import save
from hasse.models.encoders.names import LITE
from hasse.service.app import create_app
from hasse.service.settings import Settings
from tests.lab.features.noise import pictures
from tests.postgresql import new_database, place_catalog
from tests.ray import require_ray
from tests.service.cli.shell import hasse
from tests.service.client import Client
from tests.service.collection import IMAGES, make_collection, png
from tests.tiny import tiny_checkpoint

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

KEYS = ("image_id", "caption_id", "violation", "probability", "captions", "caption", "same")


@dataclass
class Served:
    """A collection in two shards, and how to ask it."""

    index: Path
    nodes: Nodes
    client: httpx.Client

    def hasse(self, *words: object, token: str | None = None) -> tuple[int, str]:
        """Run a command; return its status and what it said."""
        environment = self.nodes.environment | ({"RAY_AUTH_TOKEN": token} if token else {})
        done = subprocess.run(
            [sys.executable, "-m", "hasse", *map(str, words)],
            env=environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    require_ray()
    folder = tmp_path_factory.mktemp("cluster")
    with new_database() as url:
        place_catalog(folder / "index", url)
        index = make_collection(folder, backbone=LITE)
        with Index.open(index) as opened:  # so that there are two segments of each kind
            point = opened.points("image", [1000])[1000]
            rows = [ImageRow(1, "one.png", str(folder / "pictures/picture-0.png"), 64, 48, "test")]
            opened.add(rows, point[None], [CaptionRow(1, 1, "a dog runs")], point[None] / 2)
        with Nodes(1, cpus=2, head_cpus=4) as nodes:
            served = Served(index, nodes, httpx.Client())
            assert served.hasse("cluster", "plan", "--library", index, "--shards", 2)[0] == 0
            options = ["--shards", "2", "--replicas", "2", "--set", "open_writes=true"]
            with FrontEnd(nodes, index, *options) as front_end:
                served.client = httpx.Client(base_url=front_end.url, timeout=120)
                yield served
                served.client.close()


def hits(answer: Any) -> list[dict[str, Any]]:
    """What an answer says of its hits, but for where they are."""
    found = answer.json()
    return [
        {"certified": found["certified"], "searched": found["searched"], "unknown": None}
        | {key: hit[key] for key in KEYS if key in hit}
        for hit in found["hits"]
    ]


def ask(client: Any) -> list[list[dict[str, Any]]]:
    """Search for pictures and captions in each mode."""
    found = []
    for mode in ("certified", "exact", "fast"):
        body = {"caption": "a dog", "k": 5, "mode": mode}
        found.append(hits(client.post("/search/images", json=body)))
        files = {"image": ("p.png", png(3))}
        data = {"k": "5", "mode": mode, "distinct": "false"}
        found.append(hits(client.post("/search/captions", files=files, data=data)))
    return found


def test_cluster_of_two_nodes_answers_as_one_process_takes_writes_and_outlives_a_node(
    served: Served,
) -> None:
    local = Settings(library=served.index, device="cpu")
    with Client(create_app(local)) as alone:
        assert ask(served.client) == ask(alone)
    files = {"image": ("new.png", png(90))}
    added = served.client.post("/images", files=files, data={"caption": "a cat"})
    assert added.status_code == 201, added.text
    assert served.client.get("/").status_code == 200
    before = ask(served.client)
    assert before[0][0]["searched"] == IMAGES + 2
    command = ("cluster", "status", "--library", served.index, "--address", served.nodes.address)
    status = served.hasse(*command)
    assert status[1].count("2 of 2") == 2, status
    served.nodes.kill(served.nodes.numbers.pop())
    for _ in range(10):
        assert ask(served.client) == before


def test_wrong_token_is_refused_with_its_remedy(served: Served) -> None:
    command = ("cluster", "status", "--library", served.index, "--address", served.nodes.address)
    status, said = served.hasse(*command, token="f" * 64)
    assert (status, "copy ~/.ray/auth_token from its head" in said) == (1, True), said


def test_front_end_that_cannot_serve_is_refused_with_its_remedy(
    served: Served, tmp_path: Path
) -> None:
    library = ("--library", served.index)
    serve = ("cluster", "serve", *library, "--address", served.nodes.address, "--shards")
    status, said = served.hasse(*serve, 3)
    assert (status, "there is no plan of" in said) == (1, True), said
    assert served.hasse("cluster", "plan", *library, "--shards", 1)[0] == 0
    status, said = served.hasse(*serve, 1)
    assert (status, "the cluster has no shard 0 of 1" in said) == (1, True), said
    status, said = served.hasse(*serve, 2, "--model", tmp_path)
    assert (status, "or name another folder" in said) == (1, True), said


def here(*words: object) -> tuple[int, str]:
    """Run a command in this process."""
    done = hasse(*words)
    return done.status, done.out + done.err


def test_pictures_encoded_on_a_cluster_have_the_bits_of_one_machine(
    served: Served, tmp_path: Path
) -> None:
    model = tiny_checkpoint(tmp_path / "model", backbone=LITE)
    network = tmp_path / "weights.safetensors"
    save_file(build_backbone("torchvision/mnasnet0_5").network.state_dict(), network)
    save(pictures(tmp_path / "pictures", 9), tmp_path / "dataset")
    points, features = [], []
    for there in ((), ("--cluster", served.nodes.address)):
        place = tmp_path / f"there-{len(there)}"
        build = ("lab", "index", "build", tmp_path / "dataset", "--model", model, "--batch-size", 2)
        run = served.hasse if there else here
        assert run(*build, "--library", place / "index", "--device", "cpu", *there)[0] == 0
        with Index.open(place / "index") as made:
            ids = sorted(made.snapshot.ids("image").tolist())
            points.append([made.points("image", ids)[id_].tobytes() for id_ in ids])
        look = ("lab", "features", tmp_path / "dataset", "--backbone", "torchvision/mnasnet0_5")
        options = ("--weights", network, "--resize", 40, "--crop", 32, "--batch-size", 2)
        made_at = ("--out", place / "features", "--device", "cpu", *there)
        assert run(*look, *options, *made_at)[0] == 0
        features.append(FeatureStore.open(place / "features").views().tobytes())
    assert points[0] == points[1]
    assert len(points[0]) == 9
    assert features[0] == features[1]


def test_replica_of_damaged_segments_does_not_start_while_others_answer(served: Served) -> None:
    before = ask(served.client)
    for points in (served.index / "segments").glob("*/points.npy"):
        damaged = points.with_name("damaged")  # replicas that run have the other file open
        damaged.write_bytes(points.read_bytes()[:-1] + b"?")
        damaged.rename(points)
    for number in served.nodes.numbers:
        served.nodes.kill(number)
    served.nodes.numbers[:] = [served.nodes.add()]
    command = ("cluster", "status", "--library", served.index, "--address", served.nodes.address)
    until = time.monotonic() + 240
    while "was changed since it was written" not in (said := served.hasse(*command)[1]):
        assert time.monotonic() < until, said
    assert ask(served.client) == before
