"""What a client's run comes to in records, bytes and time."""

import json

from bench import frames
from bench.side_by_side import clients
from bench.side_by_side.clients import Shape, Volume
from bench.side_by_side.comparison import in_and_out
from bench.side_by_side.row import CPU_S_GB, CPU_US, KERNEL_S_GB, MB_S, request_figures, volume_figures
from bench.side_by_side.usage import ClientRun, Look, Machine, Usage
from tests.unit.bench.small_broker import FETCH, PRODUCE, TOPIC, small_broker


def used(brokers: float) -> Usage:
    return Usage(1.0, brokers, 0.1, brokers, 0.1, Machine(brokers, 0.0), 2, kernel=brokers / 4)


def test_a_replay_counts_the_records_that_it_has_sent() -> None:
    with small_broker() as broker:
        volume = clients.replay(broker, TOPIC, Shape(20_000, 100, batch_bytes=1000))
    frame = frames.produce(TOPIC, 0, records=10, record_bytes=100).frame
    assert {len(request) for request in broker.heard} == {len(frame) - 4}
    assert (len(broker.heard), volume.records, volume.payload_bytes) == (20, 200, 20_000)


def test_a_drain_counts_answers_and_no_records() -> None:
    with small_broker() as broker:
        volume = clients.drain(broker, TOPIC, partitions=1, records=1000, answer_bytes=10 << 20)
    assert (volume.answers, volume.records) == (len(broker.heard), None) == (10, None)
    assert volume.payload_bytes == 10 * (2000 + frames.fetch_overhead(TOPIC))


def test_what_is_to_warm_is_written_and_read() -> None:
    with small_broker() as broker:
        assert in_and_out(broker, Shape(30_000, 100)) >= 30_000
    assert broker.asked(PRODUCE)
    assert broker.asked(FETCH)


def test_rates_are_of_bytes_and_of_records_where_they_were_counted() -> None:
    written = volume_figures(Volume(500_000_000, 2.0, used(1.0), records=4_000))
    cost = [(CPU_S_GB, 2.0), (KERNEL_S_GB, 0.5)]
    assert [(each.name, each.value) for each in written] == [(MB_S, 250.0), ("records/s", 2_000.0), *cost]
    read = volume_figures(Volume(500_000_000, 2.0, used(1.0), answers=400))
    assert [(each.name, each.value) for each in read] == [(MB_S, 250.0), *cost]


def test_a_cost_of_few_ticks_of_the_clock_says_so_and_a_rate_does_not_care() -> None:
    for brokers, is_judged in ((0.02, False), (5.0, True)):
        for figure in (
            *volume_figures(Volume(1_000_000, 1.0, used(brokers), records=10)),
            *request_figures(100, 1.0, used(brokers)),
        ):
            assert (not figure.unjudged) is (is_judged or figure.name not in {CPU_S_GB, CPU_US}), figure


def test_the_start_of_a_load_is_no_part_of_its_time() -> None:
    """Four seconds of imports on one core, then one in which the load was as busy as can be."""
    looks = [
        Look(0.0, Machine(0.0, 0.0), {}),
        Look(4.0, Machine(4.0, 0.0), {1: 4.0}),
        Look(5.0, Machine(5.0, 0.0), {1: 5.0}),
    ]
    whole = Usage(5.0, 0.2, 5.0, 0.2, 5.0, Machine(5.0, 0.0), 2)
    told = {"client_cpu_seconds": 0.95, "seconds": 1.0}
    result, usage = clients.of_load(ClientRun([json.dumps(told)], whole, looks))
    assert result == told
    assert (usage.seconds, usage.client, usage.limiter) == (1.0, 0.95, "client")
