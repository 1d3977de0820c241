"""Blocks that are used again do not cost the kernel's work again."""

import subprocess
import sys

import pytest

_FAULTS = """
import resource, sys
from barnabas.runtime.memory import keep_freed_memory
keeps = sys.argv[1] == "keeps" and keep_freed_memory()
def frames():
    for _ in range(50):
        kept = [bytearray(1 << 20) for _ in range(6)]
frames()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
frames()
print(keeps, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _run(how: str) -> tuple[str, int]:
    keeps, faults = subprocess.check_output([sys.executable, "-c", _FAULTS, how], text=True).split()
    return keeps, int(faults)


def test_frames_of_a_megabyte_cost_no_page_faults_once_there_were_some() -> None:
    keeps, faults = _run("keeps")
    if keeps == "False":
        pytest.skip("the C library is not glibc")
    assert faults < 1_000, f"{faults} page faults for 300 MiB that was there before"
    _, without = _run("does not")
    assert without > 10 * faults, "nothing was gained"
