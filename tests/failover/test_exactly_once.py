"""What is copied in transactions is there once, and the bank keeps its sum: each kind of fault, or as long as a soak.

`make claims ARGS=exactly-once` copies a million records.
"""

import time
from pathlib import Path

import pytest

from tests.failover.exactly_once import DRAWN, Plan, Stage, play
from tests.support import soak
from tests.support.kafka_jars import CLIENT_JARS, JarsNotAvailable, class_path

SHARE_OF_A_SOAK = 0.2
SOAK_SECONDS = soak.minutes() * 60 * SHARE_OF_A_SOAK
FAULTS = ("kill-copier", "kill-transaction-coordinator", "kill-teller", "kill-group-coordinator")
"""Whoever coordinates leads other partitions, too."""

pytestmark = [
    pytest.mark.java,
    pytest.mark.soak,
    pytest.mark.processes,
    pytest.mark.timeout(420 + int(soak.minutes() * 60)),
]


def test_what_is_copied_is_there_once_and_the_bank_keeps_its_sum(tmp_path: Path, seed: int) -> None:
    try:
        class_path(CLIENT_JARS)
    except JarsNotAvailable as error:
        pytest.skip(str(error))
    until_s = time.monotonic() + SOAK_SECONDS

    def goes_on(stage: Stage) -> str | None:
        return stage.random.choice(DRAWN) if time.monotonic() < until_s else None

    plan = Plan(records=1_000_000, rate=400, most=50, most_open=4000)
    seen = play(tmp_path, plan, FAULTS, seed=seed, goes_on=goes_on)
    print(f"{seen.records} records copied twice in {seen.seconds} s: {seen.transactions}")
    assert seen.findings == []
