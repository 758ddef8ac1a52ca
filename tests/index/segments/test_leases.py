from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hasse.index.segments.leases import Lease, oldest_local_lease


def test_generation_is_read_until_its_last_lease_is_gone(tmp_path: Path) -> None:
    first, second = Lease(tmp_path, 5), Lease(tmp_path, 5)
    assert oldest_local_lease(tmp_path, 6) == 5
    assert oldest_local_lease(tmp_path, 4) == 4
    first.release()
    assert oldest_local_lease(tmp_path, 6) == 5
    del second
    assert oldest_local_lease(tmp_path, 6) == 6
    assert oldest_local_lease(tmp_path, 0) == 0


@pytest.mark.parametrize("order", [(3, 7, 5), (7, 5, 3), (5, 3, 7)])
def test_oldest_of_several_is_found_whichever_came_first(
    order: tuple[int, ...], tmp_path: Path
) -> None:
    held = {generation: Lease(tmp_path, generation) for generation in order}
    for generation in (3, 5, 7):
        assert oldest_local_lease(tmp_path, 9) == generation
        held[generation].release()
    assert oldest_local_lease(tmp_path, 9) == 9


def test_another_process_is_seen_reading_and_its_death_as_well(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from hasse.index.segments.leases import Lease\n"
        "lease = Lease(Path(sys.argv[1]), 3); print('held', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, tmp_path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    ) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"held\n"
        assert oldest_local_lease(tmp_path, 4) == 3
        reader.kill()
    assert oldest_local_lease(tmp_path, 4) == 4


def test_looking_for_the_oldest_leaves_no_file_open(tmp_path: Path) -> None:
    def opened() -> list[Path]:
        links = [path for path in list(Path("/proc/self/fd").iterdir()) if path.is_symlink()]
        return [link for path in links if (link := path.readlink()).is_relative_to(tmp_path)]

    lease = Lease(tmp_path, 3)
    before = opened()
    assert oldest_local_lease(tmp_path, 9) == 3
    assert opened() == before != []
    lease.release()


def test_system_without_such_locks_leases_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.fcntl", unknown)
    lease = Lease(tmp_path, 3)
    assert oldest_local_lease(tmp_path, 9) == 9
    lease.release()


def test_folder_that_cannot_be_written_is_read_without_a_lease(tmp_path: Path) -> None:
    lease = Lease(tmp_path / "nowhere", 3)
    assert oldest_local_lease(tmp_path / "nowhere", 9) == 9
    lease.release()


def test_generation_is_leased_by_a_user_who_may_only_read_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Lease(tmp_path, 1).release()
    opened = os.open

    def as_another_user(path: Path, flags: int, mode: int) -> int:
        if flags & os.O_ACCMODE != os.O_RDONLY:
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(path, flags, mode)

    monkeypatch.setattr("os.open", as_another_user)
    lease = Lease(tmp_path, 3)
    assert oldest_local_lease(tmp_path, 9) == 3
    lease.release()
