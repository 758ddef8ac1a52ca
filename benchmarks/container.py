"""Rehearse the container image without Docker: build it in a folder, then serve from it.

    python -m benchmarks.container /var/tmp/image

As root, on Debian with debootstrap. The steps of docker/Dockerfile run in a Debian of their own,
whose Python stands in for the image `python:3.11-slim`; libraries come from the package index, 6 GB
of them. Then the entrypoint runs as the image's user, without capabilities, on a read-only root
with /data and /tmp beside it, as docker-compose.yml has it: it makes the built-in collection, must
get ready, answer a search, be healthy and end with status 0 when it is asked to.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

import httpx

from benchmarks.report import Line, finish, machine, parser_of

ROOT = Path(__file__).parents[1]
SUITES = {"python:3.11-slim": "bookworm"}  # Debian releases with the Python of an image
PACKAGES = "ca-certificates,python3,python3-venv"
# Of the machine's own settings, those that a build needs to reach the package index.
PASSED = ("PIP_CERT", "PIP_INDEX_URL", "http_proxy", "https_proxy", "no_proxy")
SEARCHED = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
READY_SECONDS = 600  # the start period of the health check


@dataclass
class Stage:
    """A file system that a Dockerfile builds, and what holds in it."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: str = "root"
    sizes: list[tuple[str, int]] = field(default_factory=list)  # megabytes after each layer

    def program(self, command: list[str], mounts: str = "") -> list[str]:
        """Return the command line that runs a command inside, as the user of the stage.

        `mounts` are lines of shell that prepare the file system in $R; only the command sees them.
        """
        rights = f"--reuid {self.user} --regid {self.user} --init-groups"
        if self.user != "root":
            rights += " --no-new-privs --bounding-set -all --inh-caps -all"
        inside = f"cd {self.folder} && exec setpriv {rights} {shlex.join(command)}"
        script = f"""set -e
            R={shlex.quote(str(self.root))}
            mount --bind "$R" "$R"
            {mounts}
            mount --rbind /dev "$R/dev"
            mount -t proc proc "$R/proc"
            exec chroot "$R" sh -c {shlex.quote(inside)}"""
        return ["unshare", "--mount", "sh", "-c", script]

    def note_size(self, name: str, rest: str) -> None:
        """Note the size after an instruction that makes a layer."""
        if name in {"FROM", "RUN", "COPY"}:
            self.sizes.append((f"{name} {rest}"[:60], _megabytes(self.root)))


def instructions(dockerfile: str) -> Iterator[tuple[str, str]]:
    """Yield each instruction and its arguments."""
    joined = re.sub(r"\\\n(\s*#.*\n)*", " ", re.sub(r"^#.*\n", "", dockerfile, flags=re.M))
    for line in filter(None, map(str.strip, joined.splitlines())):
        name, _, rest = line.partition(" ")
        yield name, rest


def build(folder: Path, arguments: Mapping[str, str]) -> tuple[Stage, dict[str, list[str]]]:
    """Run the steps of the Dockerfile; return the last stage and its commands by instruction."""
    stages: dict[str, Stage] = {}
    commands: dict[str, list[str]] = {}
    given: dict[str, str] = {}
    stage = Stage(folder)
    for name, rest in instructions((ROOT / "docker" / "Dockerfile").read_text()):
        print(f"{name} {rest}"[:110], flush=True)
        match name:
            case "FROM":
                image, _, alias = rest.partition(" AS ")
                stage = Stage(folder / f"stage-{len(stages)}", {"PATH": SEARCHED})
                subprocess.run(["/bin/cp", "-a", base(folder, image), stage.root], check=True)
                stages[alias or "last"] = stage
            case "ARG":
                key, _, default = rest.partition("=")
                given[key] = arguments.get(key, given.get(key, default))
            case "ENV":
                for key, value in (word.split("=", 1) for word in shlex.split(rest)):
                    stage.environment[key] = Template(value).substitute(stage.environment)
            case "WORKDIR":
                stage.folder = rest
                _inside(stage, rest).mkdir(parents=True, exist_ok=True)
            case "RUN":
                passed = {key: os.environ[key] for key in PASSED if key in os.environ}
                subprocess.run(
                    stage.program(["sh", "-c", rest]),
                    env=passed | given | stage.environment,
                    check=True,
                )
            case "COPY":
                _copy(stage, rest, stages)
            case "USER":
                stage.user = rest
            case "ENTRYPOINT" | "CMD" | "HEALTHCHECK":
                commands[name] = json.loads(rest[rest.index("[") :])
            case "LABEL" | "VOLUME" | "EXPOSE":
                pass  # nothing of the file system
            case _:
                raise SystemExit(f"{name} is not rehearsed: teach it to this program")
        stage.note_size(name, rest)
    return stage, commands


def _megabytes(folder: Path) -> int:
    done = subprocess.run(
        ["/usr/bin/du", "-sxm", folder], capture_output=True, text=True, check=True
    )
    return int(done.stdout.split()[0])


def sizes(stage: Stage) -> Iterator[Line]:
    """Yield the size of the image, of each of its layers, and of its largest packages."""
    yield Line("size of the last stage", f"{stage.sizes[-1][1]:,} MB")
    before = 0
    for layer, after in stage.sizes:
        yield Line(f"layer: {layer}", f"{after - before:,} MB")
        before = after
    packages = next(_inside(stage, "/opt/hasse").glob("lib/python3*/site-packages")).iterdir()
    for size, name in sorted(((_megabytes(each), each.name) for each in packages), reverse=True)[
        :9
    ]:
        yield Line(f"package: {name}", f"{size:,} MB")


def base(folder: Path, image: str) -> Path:
    """Return a Debian with the Python of an image."""
    place = folder / "base"
    if not place.exists():
        made = place.with_name("base.partial")
        shutil.rmtree(made, ignore_errors=True)
        command = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITES[image]]
        subprocess.run([*command, made], check=True, stdout=subprocess.DEVNULL)
        (made / "usr/local/bin/python").symlink_to("/usr/bin/python3")
        for file in ("etc/resolv.conf", "etc/ssl/certs/ca-certificates.crt"):
            shutil.copyfile(Path("/", file), made / file)
        made.rename(place)
    return place


def _copy(stage: Stage, rest: str, stages: Mapping[str, Stage]) -> None:
    words = shlex.split(rest)
    options = dict(word[2:].split("=") for word in words if word.startswith("--"))
    *sources, last = (word for word in words if not word.startswith("--"))
    target = _inside(stage, last)
    for source in sources:
        place = _inside(stages[options["from"]], source) if "from" in options else ROOT / source
        if "from" in options:
            shutil.copytree(place, target, symlinks=True, copy_function=os.link)
        elif place.is_dir():
            shutil.copytree(place, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            to = target / place.name if last.endswith("/") else target
            shutil.copy(place, to)
            to.chmod(int(options["chmod"], 8) if "chmod" in options else to.stat().st_mode)


def _inside(stage: Stage, path: str) -> Path:
    return stage.root / Path("/", stage.folder, path).relative_to("/")


def serve(stage: Stage, commands: Mapping[str, list[str]], data: Path) -> Iterator[Line]:
    """Run the image as docker-compose.yml does; yield what it does."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    here = {"HASSE_DEMO": "1", "HASSE_HOST": "127.0.0.1", "HASSE_PORT": str(port)}
    environment = stage.environment | here
    owner = _inside(stage, "/data").stat()
    data.mkdir()
    os.chown(data, owner.st_uid, owner.st_gid)
    mounts = f"""mount --bind {shlex.quote(str(data))} "$R/data"
            mount -t tmpfs tmpfs "$R/tmp"
            mount -o remount,bind,ro "$R" """
    url, started = f"http://127.0.0.1:{port}", time.monotonic()
    inside = stage.program([*commands["ENTRYPOINT"], *commands["CMD"]], mounts)
    process = subprocess.Popen(inside, env=environment)
    try:
        if not comes_up(process, url):
            raise SystemExit(f"the service is not ready; its status is {process.poll()}")
        yield Line("the built-in collection made, ready", f"{time.monotonic() - started:.0f} s")
        status = Path(f"/proc/{process.pid}/status").read_text()
        rights = re.findall(r"^(?:Uid|CapEff|CapBnd|NoNewPrivs):\s+(\w+)", status, re.M)
        yield Line("user; capabilities; new privileges", "; ".join(rights), kept=rights[0] != "0")
        answer = httpx.post(f"{url}/search/images", json={"caption": "a red circle", "k": 3})
        found = answer.raise_for_status().json()
        said = f"{len(found['hits'])} hits of {found['searched']:,}, certified {found['certified']}"
        yield Line("a search", said, "3 hits", len(found["hits"]) == 3)
        for command, expected in ((commands["HEALTHCHECK"], 0), (["touch", "/etc/written"], 1)):
            done = subprocess.run(stage.program(command, mounts), env=environment, check=False)
            said = f"status {done.returncode}"
            yield Line(" ".join(command), said, f"{expected}", done.returncode == expected)
        process.terminate()
        ended = process.wait(15)
        yield Line("SIGTERM", f"status {ended}", "0", not ended)
    finally:
        process.kill()
        process.wait()


def comes_up(process: subprocess.Popen[bytes], url: str) -> bool:
    """Wait for a service; tell whether it got ready before it ended, and in time."""
    end = time.monotonic() + READY_SECONDS
    while not (ready := _is_ready(url)) and process.poll() is None and time.monotonic() < end:
        time.sleep(0.2)
    return ready


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz").status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


def main() -> None:
    """Build, serve, and print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("folder", type=Path, help="a new folder, kept")
    parser.add_argument("--build-arg", action="append", default=[], metavar="NAME=VALUE")
    asked, at = parser.parse_args(), machine()
    folder = asked.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    stage, commands = build(folder, dict(one.split("=", 1) for one in asked.build_arg))
    took = time.monotonic() - started
    lines = [
        Line("built", f"{took:.0f} s"),
        *sizes(stage),
        *serve(stage, commands, folder / "data"),
    ]
    finish("docker/Dockerfile without Docker, then its image on a read-only root", lines, at)


if __name__ == "__main__":
    main()
