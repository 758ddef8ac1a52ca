"""The dashboard and the alerts ask for what /metrics says, and nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from hasse.service.errors import REASONS
from hasse.service.telemetry.metrics import GAUGES, Metrics
from hasse.service.telemetry.stages import STAGES

FOLDER = Path(__file__).parents[2] / "docker" / "monitoring"
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text())
ALERTS: list[dict[str, Any]] = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"][0][
    "rules"
]
EXPRESSIONS = [
    *(target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]),
    *(alert["expr"] for alert in ALERTS),
]


@pytest.fixture(scope="module")
def known() -> dict[str, set[str]]:
    """Every sample's name at /metrics, with the names of its labels."""
    metrics = Metrics()
    metrics.requests("/search/images", 429).inc()
    metrics.rejections("busy").inc()
    metrics.request_seconds("/search/images").observe(0.1)
    metrics.batch_size.labels("caption").observe(3)
    for name in GAUGES:
        metrics.watch(name, lambda: 1, **({"kind": "image"} if name == "hasse_rows" else {}))
    metrics.stage_seconds["total"].observe(0.1)
    return {
        sample.name: set(sample.labels)
        for family in text_string_to_metric_families(metrics.text().decode())
        for sample in family.samples
    } | {"up": set()}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_metric_and_label_in_a_query_exists(
    expression: str, known: dict[str, set[str]]
) -> None:
    named = re.findall(r"\b(?:hasse|process)_\w+|\bup\b", expression)
    assert named
    for name, labels in re.findall(r"\b((?:hasse|process)_\w+|up)(?:\{(.*?)\})?", expression):
        assert name in known, name
        for label, value in re.findall(r'(\w+)\s*(?:=~|!=|=)\s*"(.*?)"', labels):
            # The monitor itself adds the name of the job.
            assert label in known[name] | {"job"}, f"{name} has no label {label}"
            if label == "stage":
                assert value in STAGES
            if label == "reason":
                assert value in REASONS


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_queries_leave_out_processes_of_other_jobs(expression: str) -> None:
    for labels in re.findall(r"\bprocess_\w+(\{.*?\})?", expression):
        assert 'job="hasse"' in labels


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_query_of_rows_counts_an_index_once(expression: str) -> None:
    if "hasse_rows" in expression or "hasse_generation" in expression:
        assert expression.startswith("max(")


def test_panels_do_not_overlap_and_have_unique_titles_and_ids() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len({p["title"] for p in panels})
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells


def test_every_alert_says_what_is_wrong_and_what_to_do() -> None:
    assert len({alert["alert"] for alert in ALERTS}) == len(ALERTS)
    for alert in ALERTS:
        assert alert["labels"]["severity"] in {"page", "ticket"}
        assert alert["annotations"]["summary"].endswith(".")
        assert alert["annotations"]["action"]
        assert re.fullmatch(r"\d+[mh]", alert["for"])


def test_monitor_reads_these_rules_from_the_service() -> None:
    document = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    assert document["rule_files"] == ["alerts.yml"]
    (job,) = document["scrape_configs"]
    jobs = {name for expression in EXPRESSIONS for name in re.findall(r'job="(\w+)"', expression)}
    assert jobs == {job["job_name"]}
