"""What those who run the service see: life, readiness, numbers, lines."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hasse.service.app import create_app
from hasse.service.core import records
from hasse.service.core.engine import Engine
from hasse.service.schemas import Version
from hasse.service.settings import Settings
from hasse.service.telemetry import logs
from hasse.service.telemetry.metrics import METRICS
from hasse.service.telemetry.stages import STAGES
from tests.service.client import Client
from tests.service.collection import png
from tests.service.problems import problem

LATTICE: list[tuple[str, Any]] = [
    ("/search/images/batch", {"captions": ["a dog"]}),
    ("/search/all_of", {"all_of": ["a dog"]}),
    ("/search/common", {"common": ["a dog"]}),
    ("/search/like", {"like": "a dog", "plus": ["a cat"]}),
    ("/entails", {"premise": "a dog", "hypothesis": "a cat"}),
    ("/embed", {"texts": ["a dog"]}),
    ("/diagram?caption=a+dog", None),
    ("/images/1003/diagram", None),
]


def samples(client: Client) -> dict[str, float]:
    text = client.get("/metrics").text
    return {
        sample.name + "".join(f"[{value}]" for value in sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_while_loading_the_process_is_alive_and_not_ready(collection: Path) -> None:
    gate = threading.Event()

    def slowly(*parts: Any) -> Engine:
        assert gate.wait(60)
        return Engine.open(*parts)

    app = create_app(Settings(library=collection, device="cpu"), slowly)
    with Client(app, wait=False) as client:
        assert client.get("/livez").json() == {"status": "alive"}
        found = problem(client.get("/readyz"), 503, "not_ready")
        assert "being loaded" in found.detail
        response = client.post("/search/images", json={"caption": "a dog"})
        problem(response, 503, "not_ready")
        assert response.headers["retry-after"] == "1"
        assert Version.model_validate_json(client.get("/version").content).model is None
        assert samples(client)["hasse_ready"] == 0
        gate.set()
        while client.get("/readyz").status_code != 200:
            client.run(asyncio.sleep(0.01))
        assert client.post("/search/images", json={"caption": "a dog"}).status_code == 200
        assert samples(client)["hasse_ready"] == 1


def test_readiness_is_a_probe_of_both_encoders_and_the_index(client: Client) -> None:
    ready = client.get("/readyz").json()
    assert ready["status"] == "ready"
    assert set(ready["checks"]) == {"caption_encoder", "picture_encoder", "index", "checksums"}


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        ("checkpoint.model.encode_captions", "caption encoder"),
        ("checkpoint.model.encode_pixels", "picture encoder"),
        ("index.search_batch image", "index"),
        ("index.search_batch caption", "index"),
    ],
)
def test_readiness_names_what_is_broken(
    collection: Path, monkeypatch: pytest.MonkeyPatch, broken: str, named: str
) -> None:
    broken, _, kind = broken.partition(" ")

    with Client(create_app(Settings(library=collection, device="cpu", ready_seconds=0))) as client:
        assert client.get("/readyz").status_code == 200
        *path, last = broken.split(".")
        owner = client.engine
        for name in path:
            owner = getattr(owner, name)
        works = getattr(owner, last)

        def fail(first: object, *others: Any, **more: Any) -> Any:
            if kind in ("", getattr(first, "kind", "")):
                raise RuntimeError("broken")
            return works(first, *others, **more)

        monkeypatch.setattr(owner, last, fail)
        assert named in problem(client.get("/readyz"), 503, "not_ready").detail
        monkeypatch.undo()
        assert client.get("/readyz").status_code == 200


def test_metrics_probe_readiness_by_themselves(
    collection: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("broken")

    with Client(create_app(Settings(library=collection, device="cpu", ready_seconds=0))) as client:
        assert samples(client)["hasse_ready"] == 1
        monkeypatch.setattr(client.engine.index, "search_batch", fail)
        assert samples(client)["hasse_ready"] == 0
        monkeypatch.undo()
        assert samples(client)["hasse_ready"] == 1


def test_version_names_model_and_collection(client: Client) -> None:
    version = Version.model_validate_json(client.get("/version").content)
    assert (version.name, version.model, version.dimension) == ("hasse", "tiny", 16)
    assert (version.images, version.captions, version.score) == (12, 24, "order")
    assert len(version.fingerprint or "") == 64


def test_every_metric_of_the_table_is_there_and_no_other(client: Client) -> None:
    families = {
        family.name: family
        for family in text_string_to_metric_families(client.get("/metrics").text)
    }
    ours = {name for name in families if name.startswith("hasse_")}
    assert ours == set(METRICS)
    assert {families[name].documentation for name in ours} == set(METRICS.values())
    assert "process_resident_memory_bytes" in families


def test_metrics_count_answers_stages_and_refusals(collection: Path) -> None:
    # One probe for all of it: they make batches too.
    with Client(
        create_app(Settings(library=collection, device="cpu", ready_seconds=600))
    ) as client:
        before = samples(client)
        client.post("/search/images", json={"caption": "a dog"})
        client.post("/search/images", json={"caption": "a dog", "k": 0})
        client.post("/search/captions", files={"image": ("a.png", png(1))})
        for path, asked in LATTICE:
            client.request("POST" if asked else "GET", path, json=asked)
        after = samples(client)

    def grew(name: str) -> float:
        return after[name] - before.get(name, 0)

    assert grew("hasse_requests_total[/search/images][200]") == 1
    assert grew("hasse_requests_total[/search/images][422]") == 1
    assert grew("hasse_rejections_total[invalid]") == 1
    assert grew("hasse_stage_seconds_count[total]") == 2 + len(LATTICE)
    assert grew("hasse_stage_seconds_count[decode]") == 1
    assert {f"hasse_stage_seconds_count[{stage}]" for stage in STAGES} <= set(after)
    assert grew("hasse_batch_size_count[caption]") >= 1
    assert grew("hasse_batch_size_count[search-caption]") >= 1
    assert (after["hasse_rows[image]"], after["hasse_rows[caption]"]) == (12, 24)
    assert after["hasse_generation"] == 1
    assert after["hasse_in_flight"] == 0
    assert after["hasse_body_bytes"] == 0


def test_process_that_shares_no_folder_counts_for_itself(collection: Path) -> None:
    settings = Settings(library=collection, device="cpu", processes=2)  # which nobody began
    with Client(create_app(settings)) as client:
        assert samples(client)["hasse_ready"] == 1


def test_unknown_addresses_add_no_labels_to_the_metrics(client: Client) -> None:
    for at in range(20):
        client.get(f"/nowhere/{at}")
        client.get(f"/images/{at}")
    names = samples(client)
    assert not any("nowhere" in name for name in names)
    assert any("[/images/{image_id}][404]" in name for name in names)


def test_two_applications_count_apart(client: Client, settings: Settings) -> None:
    with Client(create_app(settings)) as other:
        other.get("/nowhere")
        assert samples(other)["hasse_rejections_total[not_found]"] == 1


def test_every_answer_has_an_id_and_takes_a_good_one_over(client: Client) -> None:
    ids = {client.get("/livez").headers["x-request-id"] for _ in range(5)}
    assert len(ids) == 5
    given = client.get("/livez", headers={"X-Request-ID": "trace-7.a_B"})
    assert given.headers["x-request-id"] == "trace-7.a_B"
    longest = client.get("/livez", headers={"X-Request-ID": "x" * 64})
    assert longest.headers["x-request-id"] == "x" * 64
    for bad in ("a b", "x" * 65, "<script>", "", "é"):
        headers = [(b"X-Request-ID", bad.encode())]
        assert client.get("/livez", headers=headers).headers["x-request-id"] != bad


def test_every_answer_has_the_security_headers(client: Client) -> None:
    for path in ("/livez", "/readyz", "/version", "/metrics", "/nowhere"):
        assert client.get(path).headers["cache-control"] == "no-store"
    for path in ("/livez", "/nowhere", "/docs", "/", "/images/1000/file", "/openapi.json"):
        headers = client.get(path, headers={"Origin": "https://elsewhere.example"}).headers
        assert headers["x-content-type-options"] == "nosniff"
        (policy,) = headers.get_list("content-security-policy")  # of several, each would hold
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert not any(name.startswith("access-control") for name in headers)


def test_head_is_get_without_the_body(client: Client) -> None:
    for path in ("/livez", "/images/1000/file", "/docs", "/"):
        assert client.request("HEAD", path).status_code == 200


def test_unexpected_exception_is_a_problem_without_internals(
    collection: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the secret of the inside")

    out = io.StringIO()
    with Client(create_app(Settings(library=collection, device="cpu"))) as client:
        monkeypatch.setattr(records, "image", fail)
        logs.configure("text", stream=out)
        response = client.get("/images/1000")
        assert samples(client)["hasse_rejections_total[internal]"] == 1
        logs.flush(60)
    found = problem(response, 500, "internal")
    assert "secret" not in response.text
    assert "the secret of the inside" in out.getvalue()
    assert found.request_id in out.getvalue()
    (line,) = [line for line in out.getvalue().splitlines() if " request " in line]
    assert " warning " in line


def test_each_request_is_one_json_line_with_its_id(client: Client) -> None:
    out = io.StringIO()
    logs.configure("json", stream=out)
    client.get("/images/77", headers={"X-Request-ID": "mine"})
    client.post("/search/images", json={"caption": "a dog"})
    client.get("/livez")
    logs.flush(60)
    logs.flush(60)
    first, second = (json.loads(line) for line in out.getvalue().splitlines())
    assert first["id"] == "mine"
    assert (first["event"], first["method"], first["path"]) == ("request", "GET", "/images/77")
    assert (first["status"], first["reason"]) == (404, "not_found")
    assert (second["status"], second["level"]) == (200, "info")
    assert second["ms"] > 0


def test_client_cannot_write_lines_of_its_own_into_the_log(client: Client) -> None:
    out = io.StringIO()
    logs.configure("text", stream=out)
    client.get("/a%0A2026-01-01T00:00:00.000Z%20info%20forged%1b[31m")
    logs.flush(60)
    logs.flush(60)
    (line,) = out.getvalue().splitlines()
    assert "\x1b" not in line
    assert 'path="/a\\n2026' in line
    client.get("/a%20status=200")
    logs.flush(60)
    logs.flush(60)
    assert 'path="/a status=200" status=404' in out.getvalue()


def test_log_line_holds_the_exception_and_a_bounded_path(client: Client) -> None:
    out = io.StringIO()
    logs.configure("json", stream=out)
    client.get("/" + "a" * 300)
    logs.flush(60)
    try:
        raise RuntimeError("it broke")
    except RuntimeError:
        logs.LOGGER.exception("failed")
    logs.flush(60)
    asked, failed = map(json.loads, out.getvalue().splitlines())
    assert asked["path"] == "/" + "a" * 199
    assert "RuntimeError: it broke" in failed["exception"]
