"""A seed replays to the byte: in one process, over processes, and whatever PYTHONHASHSEED is."""

import os
import subprocess
import sys

import pytest

from barnabas.simulation.trial import run_seed

_PROGRAM = """
import logging
logging.disable(logging.CRITICAL)
from barnabas.simulation.trial import run_seed
tally = run_seed({seed})
print(tally.digest, tally.steps, tally.operations, sorted(tally.acted.items()))
"""


def test_two_runs_of_a_seed_are_one():
    first, second, other = run_seed(11), run_seed(11), run_seed(12)
    assert (first.digest, first.steps, first.notes) == (second.digest, second.steps, second.notes)
    assert first.digest != other.digest


def test_a_trace_changes_nothing():
    lines: list[str] = []
    traced = run_seed(13, trace=lines.append)
    assert traced.digest == run_seed(13).digest
    assert len(lines) == traced.steps


@pytest.mark.parametrize("seed", [21, 56008])  # the second one has groups, transactions and copiers
def test_hash_seeds_change_nothing(seed):
    outputs = set()
    for hash_seed in ("0", "1", "4242"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM.format(seed=seed)],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        outputs.add(done.stdout)
    assert len(outputs) == 1, outputs
