"""The worker's entry: what it costs a broker to name it, and the way into a process of its own and back."""

import subprocess
import sys

from barnabas.runtime.clock import SystemClock
from barnabas.runtime.disk import SystemDisk
from barnabas.runtime.offload import SystemOffload
from barnabas.storage.cleaning.clean_job import CleanedSegment, CleanProgress
from barnabas.storage.cleaning.clean_run import clean
from tests.unit.storage.cleaning.segment_world import SegmentWorld

LOADS_NUMPY = "import sys, barnabas.storage.cleaner, barnabas.storage.cleaning.clean_run; print('numpy' in sys.modules)"


def test_who_only_names_the_worker_does_not_load_numpy() -> None:
    done = subprocess.run([sys.executable, "-c", LOADS_NUMPY], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


async def test_a_cleaning_runs_in_a_worker_process(tmp_path) -> None:
    log = SegmentWorld(str(tmp_path))
    for n in range(50):
        log.put((f"{n % 5}", f"{n}"), producer=(3, 0, n))
    log.roll()
    told: list[object] = []
    offload = SystemOffload()
    try:
        result = await offload.steps(told.append, clean, SystemDisk(), SystemClock(), log.job())
    finally:
        offload.close()
    assert (result.first_dirty_offset, result.records_kept) == (50, 5)
    assert {type(each) for each in told} == {CleanProgress, CleanedSegment}
    for each in told:
        if isinstance(each, CleanedSegment):
            log.replace(each)
    assert [value for _, _, value in log.pairs()] == ["45", "46", "47", "48", "49"]
