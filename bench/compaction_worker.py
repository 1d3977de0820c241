"""A cleaning that measures itself, in a module that a worker process can load."""

import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

from barnabas.runtime.clock import Clock
from barnabas.runtime.disk import Disk
from barnabas.storage.cleaning.clean_job import CleanJob, CleanResult
from barnabas.storage.cleaning.clean_run import clean


def measured_clean(
    disk: Disk, clock: Clock, job: CleanJob
) -> Generator[Any, None, tuple[CleanResult, float, float, int]]:
    """A cleaning in the worker: its result, seconds, CPU seconds and the peak of the process's memory in KiB."""
    began, cpu_began = time.perf_counter(), time.process_time()
    result = yield from clean(disk, clock, job)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu_began
    status = Path("/proc/self/status").read_text()
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
    return result, seconds, cpu, peak
