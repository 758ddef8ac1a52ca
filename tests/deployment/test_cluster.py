"""The files that start a cluster say what they must, in the shape that their programs read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docker" / "cluster"


def described(required: dict[str, Any], **others: Any) -> dict[str, Any]:
    """Return the schema of an object with these fields and no others."""
    return {
        "type": "object",
        "properties": required | others,
        "required": list(required),
        "additionalProperties": False,
    }


TEXT, ANY, NUMBER = {"type": "string"}, {"type": "object"}, {"type": "integer", "minimum": 0}
TEXTS = {"type": "array", "items": TEXT}
NAMED = {"type": "array", "items": {"type": "object", "required": ["name"]}}
PARAMETERS = {"type": "object", "additionalProperties": TEXT}
CONTAINER = described(
    {"name": TEXT, "image": TEXT, "resources": ANY, "env": NAMED},
    command=TEXTS,
    args=TEXTS,
    volumeMounts=NAMED,
    ports={"type": "array", "items": described({"containerPort": NUMBER})},
    readinessProbe=ANY,
)
POD = described(
    {"spec": described({"containers": {"type": "array", "items": CONTAINER}}, volumes=NAMED)},
    metadata=ANY,
)
HEAD = described({"rayStartParams": PARAMETERS, "template": POD})
GROUP = described(
    {"groupName": TEXT, "replicas": NUMBER, "minReplicas": NUMBER, "maxReplicas": NUMBER}
    | {"rayStartParams": PARAMETERS, "template": POD}
)
# Of the custom resource of KubeRay 1.5, the fields that are used here.
RAY_CLUSTER = described(
    {
        "apiVersion": {"const": "ray.io/v1"},
        "kind": {"const": "RayCluster"},
        "metadata": described({"name": TEXT}),
        "spec": described(
            {
                "rayVersion": TEXT,
                "authOptions": described({"mode": {"enum": ["token", "disabled"]}}),
                "gcsFaultToleranceOptions": described(
                    {"redisAddress": TEXT, "redisPassword": {"type": "object"}}
                ),
                "headGroupSpec": HEAD,
                "workerGroupSpecs": {"type": "array", "items": GROUP},
            }
        ),
    }
)
# Of the compose specification, likewise.
SERVICE = {
    "type": "object",
    "required": ["image", "restart"],
    "properties": {
        "image": TEXT,
        "restart": {"enum": ["no", "always", "on-failure", "unless-stopped"]},
        "entrypoint": TEXTS,
        "command": TEXTS,
        "environment": PARAMETERS,
        "volumes": TEXTS,
        "secrets": TEXTS,
        "ports": TEXTS,
        "depends_on": TEXTS,
        "cap_drop": TEXTS,
        "security_opt": TEXTS,
        "init": {"type": "boolean"},
        "shm_size": TEXT,
        "deploy": described({"replicas": NUMBER}),
        "build": described({"context": TEXT, "dockerfile": TEXT, "args": PARAMETERS}),
    },
    "additionalProperties": False,
}


def compose() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((FOLDER / "docker-compose.yml").read_text())
    return document


def kubernetes() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / "kuberay.yaml").read_text()))


@pytest.mark.parametrize("name", list(compose()["services"]))
def test_compose_service_is_what_the_specification_allows(name: str) -> None:
    document = compose()
    service = document["services"][name]
    jsonschema_rs.validate(SERVICE, service)
    for volume in service.get("volumes", ()):
        assert volume.split(":")[0] in document["volumes"]
    for other in service.get("depends_on", ()):
        assert other in document["services"]


def test_compose_has_a_head_two_workers_and_publishes_the_front_end_alone() -> None:
    services = compose()["services"]
    assert services["worker"]["deploy"]["replicas"] == 2
    assert [name for name, one in services.items() if "ports" in one] == ["front-end"]
    for name in ("head", "worker", "front-end"):
        given = services[name]["environment"]
        assert (given["RAY_AUTH_MODE"], given["RAY_USAGE_STATS_ENABLED"]) == ("token", "0")
    assert services["head"]["environment"]["RAY_REDIS_ADDRESS"].split(":")[0] in services


def test_compose_gives_each_service_its_own_secret() -> None:
    document = compose()
    services = document["services"]
    assert services["postgresql"]["secrets"] == ["postgresql"]
    assert services["postgresql"]["environment"]["POSTGRES_PASSWORD_FILE"].endswith("/postgresql")
    assert services["redis"]["secrets"] == ["redis"]
    assert "requirepass" in services["redis"]["command"][2]
    assert services["head"]["secrets"] == ["token", "redis"]
    for name in ("worker", "front-end"):
        assert services[name]["secrets"] == ["token"]
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    for name, secret in document["secrets"].items():
        assert secret["file"] == f"./{name}"
        assert f"docker/cluster/{name}" in ignored


def test_ray_cluster_is_what_kuberay_reads() -> None:
    cluster, service, policy = kubernetes()
    jsonschema_rs.validate(RAY_CLUSTER, cluster)
    assert cluster["spec"]["authOptions"]["mode"] == "token"
    shards, front_ends = cluster["spec"]["workerGroupSpecs"]
    assert shards["minReplicas"] <= shards["replicas"] <= shards["maxReplicas"]
    labels = front_ends["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    name = cluster["metadata"]["name"]
    assert policy["spec"]["podSelector"]["matchLabels"] == {"ray.io/cluster": name}
    assert policy["spec"]["ingress"][-1] == {"ports": [{"port": 8000}]}
    for group in (cluster["spec"]["headGroupSpec"], shards, front_ends):
        pod = group["template"]["spec"]
        there = {volume["name"] for volume in pod.get("volumes", ())}
        mounted = [
            one["name"] for each in pod["containers"] for one in each.get("volumeMounts", ())
        ]
        assert set(mounted) <= there


def test_front_ends_of_both_files_run_a_command_that_there_is() -> None:
    from hasse.service.cli.serving.cluster import cluster

    commands = {
        command.callback.__name__ for command in cluster.registered_commands if command.callback
    }
    front_end = kubernetes()[0]["spec"]["workerGroupSpecs"][1]["template"]["spec"]["containers"][1]
    assert front_end["command"][:2] == ["hasse", "cluster"]
    assert front_end["command"][2] in commands
    entrypoint = compose()["services"]["front-end"]["entrypoint"]
    assert "hasse cluster serve --library /data/index" in entrypoint[2]
