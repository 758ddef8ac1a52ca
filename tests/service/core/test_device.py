"""The device that is picked, and what is said where packages for it are missing."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from hasse.service.core import device
from hasse.service.core.device import DeviceError, pick_device


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine with a CUDA driver, whose packages have not been looked for."""
    monkeypatch.setattr(device, "_has_driver", lambda: True)
    device._has_packages.cache_clear()
    yield
    device._has_packages.cache_clear()


@pytest.fixture
def no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without torch."""
    monkeypatch.setattr(
        device, "find_spec", lambda name: None if name == "torch" else find_spec(name)
    )


def test_pick_device_auto_without_a_driver_is_the_processor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(device, "_has_driver", lambda: False)
    assert pick_device("auto") == "cpu"


@pytest.mark.usefixtures("driver", "no_torch")
def test_pick_device_auto_without_torch_is_the_processor_and_logs_it_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("hasse"), "propagate", True)
    with caplog.at_level(logging.INFO):
        assert [pick_device("auto") for _ in range(3)] == ["cpu"] * 3
    # By identity: where a handler of an earlier test is left, a record is captured twice.
    records = {id(each): each for each in caplog.records if "GPU is not used" in each.message}
    (record,) = records.values()
    assert "[gpu]" in vars(record)["facts"]["install"]


@pytest.mark.usefixtures("driver", "no_torch")
def test_pick_device_cuda_without_torch_says_what_to_install() -> None:
    with pytest.raises(DeviceError, match=r"cuda:1 needs packages that are missing: pip .*\[gpu\]"):
        pick_device("cuda:1")


@pytest.mark.torch
@pytest.mark.usefixtures("driver")
@pytest.mark.parametrize(
    ("name", "devices", "picked"),
    [("auto", 0, "cpu"), ("auto", 1, "cuda"), ("cuda", 1, "cuda"), ("cuda:1", 2, "cuda:1")],
)
def test_pick_device_takes_a_card_that_is_there(
    name: str, devices: int, picked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "_devices", lambda: devices)
    assert pick_device(name) == picked


@pytest.mark.torch
@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_pick_device_refuses_a_card_that_is_not_there(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "_devices", lambda: 0)
    with pytest.raises(DeviceError, match=rf"no {name} \(0 CUDA devices in all\)"):
        pick_device(name)


@pytest.mark.parametrize("name", ["tpu", "cpu:1", "cuda:x", "auto:0", ""])
def test_pick_device_refuses_a_name_that_is_no_device(name: str) -> None:
    with pytest.raises(DeviceError, match="use cpu, cuda, cuda:1 or auto"):
        pick_device(name)
