"""Counting, quantiles, and what is shown under Kafka's names."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.core import GaugeMetricFamily

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from broker.metric_exposition import gauge
from broker.metrics import FOLLOWER_FETCH, BrokerMetrics, TimeHistogram
from broker.metrics_server import MetricsServer
from tests.support.clock import ManualClock


def shown(metrics: BrokerMetrics) -> dict[str, float]:
    """Samples by name and labels as they are written."""
    lines = metrics.exposition().decode().splitlines()
    return {
        name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))
    }


@given(st.integers(min_value=0, max_value=2**50))
def test_a_quantile_is_right_within_an_eighth(duration_us: int) -> None:
    histogram = TimeHistogram()
    histogram.add(duration_us)
    (quantile,) = histogram.quantiles_us([0.5])
    bounded = min(duration_us, 2**41 - 1)
    assert abs(quantile - bounded) <= bounded / 8


@given(st.lists(st.integers(min_value=0, max_value=10**9), min_size=1))
def test_quantiles_rise_and_counts_are_exact(durations: list[int]) -> None:
    histogram = TimeHistogram()
    for duration_us in durations:
        histogram.add(duration_us)
    quantiles = histogram.quantiles_us([0.0, 0.5, 0.9, 1.0])
    assert quantiles == sorted(quantiles)
    assert (histogram.settled().count, histogram.sum_us) == (len(durations), sum(durations))


def test_quantiles_look_back_over_two_windows_and_counts_over_all_time() -> None:
    clock = ManualClock()
    metrics = BrokerMetrics(clock)
    p99 = 'kafka_network_requestmetrics_totaltimems{quantile="0.99",request="Produce"}'
    count = 'kafka_network_requestmetrics_totaltimems_count{request="Produce"}'
    metrics.request_done(ApiKey.PRODUCE, local_us=1000, remote_us=0)
    assert shown(metrics)[p99] == pytest.approx(1, rel=0.13)
    clock.advance(300_000)
    assert shown(metrics)[p99] == pytest.approx(1, rel=0.13)
    clock.advance(300_000)
    assert shown(metrics)[p99] == 0
    assert shown(metrics)[count] == 1


def test_a_request_is_counted_by_api_version_and_stage() -> None:
    metrics = BrokerMetrics(ManualClock())
    metrics.request_done(ApiKey.LIST_OFFSETS, local_us=2000, remote_us=3000, queue_us=1000, send_us=4000, version=5)
    samples = shown(metrics)
    assert samples['kafka_network_requestmetrics_requests_total{request="ListOffsets",version="5"}'] == 1
    sums = {
        stage: samples[f'kafka_network_requestmetrics_{stage}_sum{{request="ListOffsets"}}']
        for stage in ("requestqueuetimems", "localtimems", "remotetimems", "responsesendtimems", "totaltimems")
    }
    assert list(sums.values()) == [1, 2, 3, 4, 10]


def test_fetches_are_shown_in_all_and_by_who_asked() -> None:
    metrics = BrokerMetrics(ManualClock())
    metrics.request_done(ApiKey.FETCH, local_us=1, remote_us=0, version=11)
    for _ in range(2):
        metrics.request_done(FOLLOWER_FETCH, local_us=1, remote_us=500_000, version=12)
    metrics.count_error(FOLLOWER_FETCH, ErrorCode.FENCED_LEADER_EPOCH)
    samples = shown(metrics)
    for name, count in (("Fetch", 3), ("FetchConsumer", 1), ("FetchFollower", 2)):
        assert samples[f'kafka_network_requestmetrics_totaltimems_count{{request="{name}"}}'] == count
    errors = [name for name in samples if name.startswith("kafka_network_requestmetrics_errors_total")]
    assert sorted(name.partition('request="')[2] for name in errors) == ['Fetch"}', 'FetchFollower"}']


def test_errors_are_counted_by_name() -> None:
    metrics = BrokerMetrics(ManualClock())
    metrics.count_error(ApiKey.METADATA, ErrorCode.LEADER_NOT_AVAILABLE, 2)
    metrics.count_error(ApiKey.METADATA, ErrorCode.LEADER_NOT_AVAILABLE)
    name = 'kafka_network_requestmetrics_errors_total{error="LEADER_NOT_AVAILABLE",request="Metadata"}'
    assert shown(metrics)[name] == 3


def test_traffic_is_shown_by_topic_and_in_all_and_outlives_the_topic() -> None:
    metrics = BrokerMetrics(ManualClock())
    metrics.topic("a").bytes_in += 5
    metrics.topic("b").bytes_in += 7
    metrics.forget_topic("a")
    metrics.forget_topic("never")
    samples = shown(metrics)
    assert samples["kafka_server_brokertopicmetrics_bytesin_total"] == 12
    assert samples['kafka_server_brokertopicmetrics_bytesin_total{topic="b"}'] == 7
    assert 'kafka_server_brokertopicmetrics_bytesin_total{topic="a"}' not in samples


def test_sources_are_asked_each_time() -> None:
    metrics = BrokerMetrics(ManualClock())
    asked = []

    def source() -> list[object]:
        asked.append(1)
        return [gauge("barnabas_test", "A test.", len(asked))]

    metrics.add_source(source)  # type: ignore[arg-type]
    assert shown(metrics)["barnabas_test"] == 1
    assert shown(metrics)["barnabas_test"] == 2


def test_two_brokers_of_one_process_share_no_metric() -> None:
    one, other = BrokerMetrics(ManualClock()), BrokerMetrics(ManualClock())
    one.count_refused_connection()
    assert shown(one)["barnabas_refused_connections_total"] == 1
    assert shown(other)["barnabas_refused_connections_total"] == 0


def test_loop_lag_is_kept() -> None:
    metrics = BrokerMetrics(ManualClock())
    metrics.observe_loop_lag(50_000)
    metrics.observe_loop_lag(7)
    assert metrics.greatest_loop_lag_us == 50_000
    assert shown(metrics)["barnabas_event_loop_lag_ms_count"] == 2
    assert shown(metrics)["barnabas_event_loop_late_total"] == 0
    metrics.observe_loop_lag(50_001)
    assert shown(metrics)["barnabas_event_loop_late_total"] == 1


async def ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer


async def test_the_server_answers_get_metrics_and_nothing_else() -> None:
    metrics = BrokerMetrics(ManualClock())
    server = MetricsServer(metrics)
    port = await server.start(0)
    try:
        answer = await ask(port, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK")
        assert f"Content-Length: {len(body)}".encode() in head
        assert b"barnabas_event_loop_lag_ms_count 0.0" in body
        assert (await ask(port, b"GET / HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 404")
        assert (await ask(port, b"POST /metrics HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 405")
        assert (await ask(port, b"HEAD /metrics HTTP/1.1\r\n\r\n")).endswith(b"\r\n\r\n")
        assert await ask(port, b"x" * 20_000) == b""
    finally:
        await server.close()


async def test_many_samples_are_shown_in_turns_and_as_at_once() -> None:
    metrics = BrokerMetrics(ManualClock())
    metrics.request_done(ApiKey.PRODUCE, local_us=50, remote_us=0)
    family = GaugeMetricFamily("sizes", "Bytes of each", labels=["number"])
    for number in range(1234):
        family.add_metric([str(number)], number)
    metrics.add_source(lambda: [gauge("before", "One", 1), family, gauge("after", "Another", 2)])
    assert await metrics.exposition_in_turns() == metrics.exposition()
