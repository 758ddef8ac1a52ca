"""Joins or starts a Ray cluster.

Ray runs code for any client that reaches its ports, so token authentication is on. Ray's usage
statistics are off.
"""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from hasse.models.errors import HasseError, pip_install

TOKEN = "RAY_AUTH_TOKEN"  # noqa: S105 - the names of environment variables
TOKEN_PATH = "RAY_AUTH_TOKEN_PATH"  # noqa: S105
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "token",
    # By default Ray's workers have the lowest priority, but clients wait for replicas.
    "RAY_worker_niceness": "0",
    # Requests go to replicas directly. This takes half the time of Ray's actor calls, and the loss
    # of a replica is noticed at once.
    "RAY_SERVE_USE_GRPC_BY_DEFAULT": "1",
}
_CONNECT_SECONDS = 5.0  # to reach the head


class ClusterError(HasseError):
    """The cluster cannot be reached or used; the message names the remedy."""


def _ray_of() -> Any:
    """Import Ray, with its environment set.

    Raises:
        ClusterError: Ray is not installed.
    """
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        import ray
        import ray.serve
    except ModuleNotFoundError as error:
        raise ClusterError(
            f"Ray is missing ({error}): {pip_install('cluster')} on every machine"
        ) from None
    return ray


def connect(address: str | None = None) -> Any:
    """Join the cluster at HOST:PORT; without an address, the one of this machine. Return Ray.

    Raises:
        ClusterError: Ray is missing, no cluster is there, or the token is not that of the cluster.
    """
    if address is not None:
        _require_listener(address)
    if not _has_token():
        raise ClusterError(
            f"there is no token for the cluster: copy ~/.ray/auth_token from its head, or name the "
            f"file in {TOKEN_PATH}"
        )
    ray = _ray_of()
    if ray.is_initialized():
        return ray
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "error")
    try:
        ray.init(address=address or "auto", logging_level="error", log_to_driver=False)
    except (ConnectionError, RuntimeError, ray.exceptions.RayError) as error:
        if address is not None:
            raise ClusterError(
                f"the cluster at {address} does not take this process ({_one_line(error)}): copy "
                "~/.ray/auth_token from its head, and let this machine join with 'ray start "
                f"--address={address}'"
            ) from None
        raise ClusterError(
            "no Ray cluster runs on this machine: start one with 'hasse cluster serve INDEX "
            "--shards S --replicas R' or 'ray start --head', or name one with --address"
        ) from None
    # Ray warns many times a second about a replica whose node was lost.
    logging.getLogger("ray.serve").setLevel(logging.ERROR)
    return ray


def start_head() -> None:
    """Start the head of a cluster on this machine; make ~/.ray/auth_token if there is no token.

    Raises:
        ClusterError: Ray is missing or could not start.
    """
    _ray_of()
    if not _has_token():
        _ray("get-auth-token", "--generate")
    _ray("start", "--head", "--port=6379", "--include-dashboard=false", "--disable-usage-stats")


def _has_token() -> bool:
    """Return whether this process has a token for clusters."""
    named = os.environ.get(TOKEN) or os.environ.get(TOKEN_PATH)
    return bool(named) or (Path.home() / ".ray" / "auth_token").is_file()


def _ray(*command: str) -> None:
    process = subprocess.run(  # noqa: S603 - the command is fixed
        [Path(sys.executable).with_name("ray"), *command],
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        output = (process.stderr.strip() or process.stdout.strip()).splitlines() or ["no reason"]
        raise ClusterError(
            f"'ray {' '.join(command)}' failed ({output[-1].strip()}): stop what runs with "
            "'ray stop', and repeat"
        )


def _require_listener(address: str) -> None:
    host, _, port = address.rpartition(":")
    with suppress(ValueError, OSError):
        socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()
        return
    raise ClusterError(
        f"no cluster answers at {address}: start its head, or write the address as HOST:PORT"
    )


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:120]
