"""The container files agree with the program: names, paths, signals, health."""

from __future__ import annotations

import os
import re
import subprocess
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

from hasse.service.runtime.server import KEEP_ALIVE_SECONDS
from hasse.service.settings import Settings

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "docker" / "Dockerfile").read_text()
ENTRYPOINT = ROOT / "docker" / "entrypoint.sh"
# Read by the entrypoint, not by the service.
ENTRYPOINT_SETTINGS = {"HASSE_DEMO"}


def compose() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return document


def settings_names() -> set[str]:
    return {f"HASSE_{name.upper()}" for name in Settings.model_fields}


def instructions(name: str) -> list[str]:
    joined = re.sub(r"\\\n(\s*#.*\n)*", " ", DOCKERFILE)
    return [
        line[len(name) :].strip() for line in joined.splitlines() if line.startswith(name + " ")
    ]


@pytest.mark.parametrize("service", ["hasse", "hasse-gpu"])
def test_compose_sets_only_settings_that_exist(service: str) -> None:
    given = set(compose()["services"][service]["environment"])
    assert given - ENTRYPOINT_SETTINGS <= settings_names()


def test_compose_gives_keys_as_a_file_and_none_by_default() -> None:
    document = compose()
    file = document["secrets"]["keys"]["file"]
    assert file == "${HASSE_KEYS:-/dev/null}"
    for name in ("hasse", "hasse-gpu"):
        described = document["services"][name]
        assert described["secrets"] == ["keys"]
        assert described["environment"]["HASSE_KEYS_FILE"] == "${HASSE_KEYS:+/run/secrets/keys}"


def test_systemd_unit_reloads_by_sighup_and_sets_only_settings_that_exist() -> None:
    unit = (ROOT / "docker" / "hasse.service").read_text()
    given = set(re.findall(r"^Environment=(\w+)=", unit, re.M))
    assert {"HASSE_KEYS_FILE", "HASSE_SETTINGS_FILE"} < given
    assert given - {"HASSE_HOME"} <= settings_names()
    assert "ExecReload=/bin/kill -HUP $MAINPID" in unit
    assert "hasse serve\n" in unit


@pytest.mark.parametrize("service", ["hasse", "hasse-gpu"])
def test_compose_service_keeps_its_index_and_has_few_rights(
    service: str,
) -> None:
    document = compose()
    described = document["services"][service]
    (volume,) = described["volumes"]
    name, place = volume.split(":")
    assert name in document["volumes"]
    assert described["environment"]["HASSE_LIBRARY"].startswith(place + "/")
    assert described["healthcheck"]["test"] == ["CMD", "hasse-health"]
    assert described["read_only"] is True
    assert described["cap_drop"] == ["ALL"]
    # The first process of a container is deaf to signals that it has no handler for.
    assert described["init"] is True
    grace = int(described["stop_grace_period"].removesuffix("s"))
    assert grace > Settings.model_fields["shutdown_seconds"].default
    (port,) = described["ports"]
    assert port.startswith("127.0.0.1:"), "other machines are let in on purpose only"


def test_compose_gpu_service_is_a_profile_with_its_own_build() -> None:
    services = compose()["services"]
    assert "profiles" not in services["hasse"]
    gpu = services["hasse-gpu"]
    assert gpu["profiles"] == ["gpu"]
    assert gpu["build"]["args"]["VARIANT"] == "cuda"
    assert gpu["environment"]["HASSE_DEVICE"] == "cuda"
    (device,) = gpu["deploy"]["resources"]["reservations"]["devices"]
    assert device["capabilities"] == ["gpu"]
    assert services["hasse"]["build"]["args"]["VARIANT"] == "cpu"


def test_image_sets_only_settings_that_exist() -> None:
    named = set(re.findall(r"\bHASSE_[A-Z_]+(?==)", DOCKERFILE))
    assert named
    assert named <= settings_names() | ENTRYPOINT_SETTINGS


def test_image_runs_as_another_user_than_root_and_checks_its_health() -> None:
    user = instructions("USER")[-1]
    assert int(user) > 0  # Kubernetes (runAsNonRoot) knows no names
    assert f"useradd --uid {user} " in DOCKERFILE
    (health,) = instructions("HEALTHCHECK")
    assert health.endswith('CMD ["hasse-health"]')
    assert "COPY --chmod=755 docker/health.sh /usr/local/bin/hasse-health" in DOCKERFILE


def test_every_copied_file_exists_and_is_sent_to_the_builder() -> None:
    sent = {
        line[1:]
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    for copy in instructions("COPY"):
        words = [word for word in copy.split() if not word.startswith("--")]
        if "--from=build" not in copy:
            for source in words[:-1]:
                assert (ROOT / source).exists(), source
                assert source in sent, f".dockerignore holds back {source}"


def enter(tmp_path: Path, *arguments: str, **environment: str) -> tuple[int, list[str]]:
    """Run the entrypoint with a `hasse` that records how it was called, and by whom."""
    fake = tmp_path / "hasse"
    fake.write_text(f'#!/bin/sh\necho "$$ $PPID $*" >> "{tmp_path}/calls"\nexit "${{STATUS:-0}}"\n')
    fake.chmod(0o755)
    process = subprocess.Popen(
        ["sh", str(ENTRYPOINT), *arguments],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", **environment},
    )
    status = process.wait(timeout=120)
    lines = (tmp_path / "calls").read_text().splitlines()
    # The last call replaces the shell, so that it receives the signals of `docker stop`.
    if status == 0:
        assert lines[-1].split()[0] == str(process.pid)
    return status, [line.split(" ", 2)[2] for line in lines]


def test_entrypoint_is_replaced_by_the_service(tmp_path: Path) -> None:
    assert enter(tmp_path, "serve", HASSE_LIBRARY=f"{tmp_path}/index") == (0, ["serve"])


def test_entrypoint_makes_the_demo_collection_only_when_asked(tmp_path: Path) -> None:
    index = tmp_path / "index"
    demo = f"demo --no-serve --library {index}"
    asked = {"HASSE_DEMO": "1", "HASSE_LIBRARY": str(index)}
    assert enter(tmp_path, "serve", **asked) == (0, [demo, "serve"])
    (tmp_path / "calls").unlink()
    assert enter(tmp_path, "serve", **(asked | {"HASSE_DEMO": "0"})) == (0, ["serve"])


def test_entrypoint_ends_where_the_demo_cannot_be_made(tmp_path: Path) -> None:
    status, calls = enter(
        tmp_path, "serve", HASSE_DEMO="1", HASSE_LIBRARY=f"{tmp_path}/index", STATUS="1"
    )
    assert status == 1
    assert len(calls) == 1


def test_entrypoint_passes_any_other_command_on(tmp_path: Path) -> None:
    asked = {"HASSE_DEMO": "1", "HASSE_LIBRARY": f"{tmp_path}/index"}
    assert enter(tmp_path, "status", "--library", "a b", **asked) == (
        0,
        ["status --library a b"],
    )


def proxied(name: str) -> float:
    """Return a limit of the proxy, in bytes or seconds."""
    text = (ROOT / "docker" / "Caddyfile").read_text()
    found = re.search(rf"^\s*{name} (\d+)(MB|KB|s)$", text, re.MULTILINE)
    assert found is not None, name
    return int(found[1]) * {"MB": 1e6, "KB": 1e3, "s": 1}[found[2]]


def test_proxy_limits_are_a_little_wider_than_those_of_the_service() -> None:
    settings = Settings()
    # A caption in an address: four bytes for a character, three signs for a byte.
    assert proxied("max_header_size") > 12 * settings.caption_characters
    assert proxied("read_body") > settings.body_seconds
    longest = max(settings.deadline_seconds, settings.write_seconds)
    assert longest < proxied("response_header_timeout") < 1.2 * longest
    assert proxied("keepalive") < KEEP_ALIVE_SECONDS


def test_proxy_leaves_it_to_the_service_to_refuse_large_bodies() -> None:
    assert "max_size" not in (ROOT / "docker" / "Caddyfile").read_text()


def test_proxy_offers_only_protocols_that_its_ports_carry() -> None:
    assert all("/udp" not in port for port in compose()["services"]["proxy"]["ports"])
    found = re.search(r"^\s*protocols (.*)$", (ROOT / "docker" / "Caddyfile").read_text(), re.M)
    assert found is not None
    assert "h3" not in found[1].split()


@pytest.mark.parametrize("prefix", ["", "/hasse", "/a/b"])
def test_proxy_hides_what_is_for_operators_below_any_prefix(prefix: str) -> None:
    text = (ROOT / "docker" / "Caddyfile").read_text()
    found = re.search(r"^\s*@inside path (.*)\n\s*respond @inside 404$", text, re.MULTILINE)
    assert found is not None
    hidden = found[1].split()
    for path in ("/metrics", "/readyz"):
        assert any(fnmatch(prefix + path, pattern) for pattern in hidden)
    assert not any(fnmatch(f"{prefix}/search/images", pattern) for pattern in hidden)


def test_proxy_is_a_profile_that_waits_for_a_ready_service() -> None:
    services = compose()["services"]
    proxy = services["proxy"]
    assert proxy["profiles"] == ["proxy"]
    assert proxy["depends_on"]["hasse"]["condition"] == "service_healthy"
    assert proxy["read_only"] is True
    assert proxy["cap_drop"] == ["ALL"]
    caddyfile, certificates = proxy["volumes"]
    assert (ROOT / caddyfile.split(":")[0]).is_file()
    assert certificates.split(":")[0] in compose()["volumes"]
    text = (ROOT / "docker" / "Caddyfile").read_text()
    (name, port) = re.findall(r"reverse_proxy (\w+):(\d+)", text)[0]
    assert name in services
    assert services[name]["environment"]["HASSE_PORT"] == port
    assert {target.rpartition(":")[2] for target in proxy["ports"]} == set(
        re.findall(r"https?_port (\d+)", text)
    )


@pytest.mark.parametrize("cache", ["NUMBA_CACHE_DIR", "TRITON_CACHE_DIR"])
def test_image_keeps_compiled_kernels_on_the_volume(cache: str) -> None:
    (volume,) = instructions("VOLUME")
    found = re.search(rf"{cache}=(\S+)", DOCKERFILE)
    assert found is not None
    assert found[1].startswith(volume + "/")


def test_dockerfile_names_no_package_index() -> None:
    assert instructions("ARG") == ["VARIANT=cpu", "VARIANT", "EXTRAS", "VARIANT"]
    assert "://" not in re.sub(r"^#.*$", "", DOCKERFILE, flags=re.MULTILINE)


def test_cuda_image_has_the_compiler_that_triton_needs() -> None:
    final = DOCKERFILE.rpartition("\nFROM ")[2]
    assert re.search(r"^ARG VARIANT$", final, re.MULTILINE)
    assert re.search(r'if \[ "\$VARIANT" = cuda \].*\bgcc libc6-dev\b', final, re.DOTALL)
