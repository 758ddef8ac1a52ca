from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from index.leases import Lease, read_before


def test_a_generation_is_read_until_its_last_lease_is_gone(tmp_path: Path) -> None:
    first, second = Lease(tmp_path, 5), Lease(tmp_path, 5)
    assert read_before(tmp_path, 6)
    assert not read_before(tmp_path, 5)
    first.release()
    assert read_before(tmp_path, 6)
    del second
    assert not read_before(tmp_path, 6)
    assert not read_before(tmp_path, 0)


def test_another_process_is_seen_reading_and_its_death_as_well(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from index.leases import Lease\n"
        "lease = Lease(Path(sys.argv[1]), 3); print('held', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, tmp_path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    ) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"held\n"
        assert read_before(tmp_path, 4)
        reader.kill()
    assert not read_before(tmp_path, 4)


def test_a_folder_that_cannot_be_written_is_read_without_a_lease(tmp_path: Path) -> None:
    lease = Lease(tmp_path / "nowhere", 3)
    assert not read_before(tmp_path / "nowhere", 9)
    lease.release()
