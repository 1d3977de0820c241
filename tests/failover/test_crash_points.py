"""The power of a real file system is cut before and after the changes that storage makes; every state recovers.

An ordinary run plays a drawn sample, a soak of ten minutes all. `tests/unit/storage/test_crash_points.py` plays them,
and kills, on a disk in memory that forgets what was not synced.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.failover.world import isolation
from tests.support import soak

pytestmark = [pytest.mark.soak, pytest.mark.processes, pytest.mark.timeout(1200)]

POINTS, EACH_MINUTE, ALL_FROM_MINUTES = 30, 80, 10
"""How many are played; all of them, some 750, in a soak of ten minutes."""


def test_every_state_that_a_power_cut_leaves_on_ext4_recovers(tmp_path: Path) -> None:
    if reason := isolation.why_no_disks():
        pytest.skip(reason)
    seed = os.environ.get("BARNABAS_SEED", "1")
    program = [sys.executable, "-m", "tests.failover.crash_points", str(tmp_path), "--seed", seed]
    if (minutes := soak.minutes()) < ALL_FROM_MINUTES:
        program += ["--points", str(max(POINTS, int(EACH_MINUTE * minutes)))]
    played = subprocess.run(
        isolation.command(program, real_root=True), capture_output=True, text=True, check=False, timeout=1100
    )
    print(f"seed {seed}", played.stdout, played.stderr, sep="\n")
    assert played.returncode == 0
