"""What the controller costs as a function of brokers and partitions; `bench.controller_scale` has the full size."""

import asyncio
from math import ceil

import pytest

from bench.controller_scale import run
from controller.office import BATCH_PARTITIONS

MULTIS_A_BATCH = 2


@pytest.mark.parametrize(("brokers", "partitions"), [(30, 3_000), (5, 2_000)])
def test_a_broker_that_goes_costs_what_it_held_and_not_what_the_cluster_holds(brokers: int, partitions: int) -> None:
    takeover, gone, came, shut = asyncio.run(run(brokers, partitions, encodes=False))
    held = gone.partitions
    assert held == pytest.approx(3 * partitions / brokers, rel=0.1)
    # A batch is written in few multis, and told to every broker in a LeaderAndIsr and an UpdateMetadata. What it led is
    # looked at first, so that there may be one batch more.
    assert gone.operations == held
    assert gone.writes <= MULTIS_A_BATCH * (ceil(held / BATCH_PARTITIONS) + 1)
    assert gone.reads == brokers
    assert gone.messages <= 2 * brokers * (ceil(held / BATCH_PARTITIONS) + 1)
    assert gone.entries <= held * (brokers + 1)
    assert came.writes == 0
    assert came.messages <= 2 * ceil(held / BATCH_PARTITIONS) * (brokers + 1) + ceil(partitions / BATCH_PARTITIONS)
    assert shut.operations == shut.partitions
    assert shut.writes <= MULTIS_A_BATCH * ceil(held / BATCH_PARTITIONS)
    assert shut.reads == 0
    assert shut.messages <= 2 * brokers * ceil(held / BATCH_PARTITIONS)
    # Reading what stands there, and nothing written where nothing changed.
    assert takeover.reads <= partitions + ceil(partitions / 1_000) + brokers + 15
    assert takeover.writes <= 5
    assert takeover.messages <= 2 * brokers * (ceil(partitions / BATCH_PARTITIONS) + 1)
