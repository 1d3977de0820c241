"""Figures: of counters, of a broker's text, of this machine; and the configuration of the agent."""

import os
import re
from pathlib import Path

import pytest

from barnabas.pipeline import operations
from barnabas.pipeline.jobs.config import ConfigError, load_config
from barnabas.pipeline.operations import broker_figures
from barnabas.pipeline.operations.broker_figures import BrokerFigures
from barnabas.pipeline.operations.config import OperationsConfig
from barnabas.pipeline.operations.figures import METRICS, Figure, Rates, Sample, decode, encode
from barnabas.pipeline.operations.machine import HostFigures, ProcessFigures, is_own, listeners, own_addresses

TEXT = """
# TYPE kafka_network_requestmetrics_requests_total counter
kafka_network_requestmetrics_requests_total{request="Produce",version="7"} %d
kafka_network_requestmetrics_requests_total{request="Produce",version="8"} %d
# TYPE kafka_network_requestmetrics_errors_total counter
kafka_network_requestmetrics_errors_total{request="Produce",error="NONE"} 900.0
kafka_network_requestmetrics_errors_total{request="Produce",error="NOT_LEADER_OR_FOLLOWER"} %d
# TYPE kafka_network_requestmetrics_totaltimems summary
kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.5"} 1.5
kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.99"} 12.5
kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.75"} 2.5
# TYPE kafka_server_brokertopicmetrics_bytesin_total counter
kafka_server_brokertopicmetrics_bytesin_total %d
kafka_server_brokertopicmetrics_bytesin_total{topic="t"} 7.0
# TYPE kafka_server_replicamanager_underreplicatedpartitions gauge
kafka_server_replicamanager_underreplicatedpartitions 3.0
# TYPE kafka_cluster_partition_underreplicated gauge
kafka_cluster_partition_underreplicated{topic="t",partition="0"} 1.0
"""


def by_name(figures: list[Figure]) -> dict[str, float]:
    return {"/".join([each.metric, *each.labels.values()]): each.value for each in figures}


def test_rates_are_for_a_second_and_begin_anew_with_their_process() -> None:
    rates = Rates()
    assert rates.of({"a": 100.0}, 0) == {}
    assert rates.of({"a": 150.0, "b": 1.0}, 2000) == {"a": 25.0}
    assert rates.of({"a": 10.0, "b": 1.0}, 3000) == {"a": 10.0, "b": 0.0}, "it counts from 0 again"
    assert rates.of({"a": 10.0}, 3000) == {}, "no time has passed"
    rates.forget()
    assert rates.of({"a": 99.0}, 4000) == {}


def test_a_brokers_text_becomes_figures() -> None:
    figures = BrokerFigures()
    first = by_name(figures.read(TEXT % (100, 10, 5, 1000), 0))
    assert first == {
        "requests.p50_ms/Produce": 1.5,
        "requests.p99_ms/Produce": 12.5,
        "partitions.under_replicated": 3.0,
    }
    second = by_name(figures.read(TEXT % (120, 20, 7, 5000), 2000))
    assert second == first | {
        "requests.per_s/Produce": 15.0,
        "requests.errors_per_s/Produce": 1.0,
        "bytes_in_per_s": 2000.0,
    }
    figures.forget()
    assert by_name(figures.read(TEXT % (5, 5, 5, 5), 3000)) == first


def test_this_machine_has_figures() -> None:
    host = HostFigures(["/", "/no/such/path"])
    host.read(0)
    found = by_name(host.read(1000))
    assert 0 <= found["cpu.used_fraction"] <= 1
    assert 0 < found["memory.used_fraction"] < 1
    assert 0 < found["disk.used_fraction//"] <= 1
    assert "disk.used_fraction//no/such/path" not in found
    process = ProcessFigures(os.getpid())
    of_process = by_name(process.read())
    assert of_process["process.memory_bytes"] > 1e6
    assert of_process["process.open_files"] > 2
    assert process.is_alive


def test_a_threshold_may_be_on_any_figure_that_there_is_and_the_manual_names_them() -> None:
    host = HostFigures(["/"])
    host.read(0)
    told = {each.metric for each in host.read(1000) + ProcessFigures(os.getpid()).read()}
    brokers = BrokerFigures()
    lag = "".join(f'barnabas_event_loop_lag_ms{{quantile="{each}"}} 1.0\n' for each in (0.5, 0.99))
    brokers.read(TEXT % (0, 0, 0, 0), 0)
    told |= {each.metric for each in brokers.read(TEXT % (5, 5, 5, 5) + lag, 1000)}
    told |= {*broker_figures._GAUGES.values(), *broker_figures._COUNTERS.values(), "broker.up"}
    assert told <= METRICS
    # Not every machine counts what its disks and its network do.
    assert {each.partition(".")[0] for each in METRICS - told} <= {"disk", "network"}
    manual = Path(operations.__file__).parent.parent / "README.md"
    _, _, figures = manual.read_text().partition("The figures:")
    assert set(re.findall(r"`([a-z0-9_.]+)`", figures.partition("###")[0])) - {"disk", "request"} == METRICS


def test_addresses_of_this_machine_are_known() -> None:
    addresses = own_addresses()
    assert "127.0.0.1" in addresses
    assert is_own("127.0.0.1", [])
    assert is_own("localhost", [])
    assert not is_own("192.0.2.77", addresses)
    assert isinstance(listeners(), dict)


def test_samples_come_back_as_they_were_written() -> None:
    sample = Sample(17, "h", 3, [Figure("m", 1.5, {"l": "x"}), Figure("n", 2)])
    assert decode(encode(sample)) == sample
    assert [(str(series), value) for series, value in sample.series()] == [
        ("m{l=x} of broker 3 on h", 1.5),
        ("n of broker 3 on h", 2),
    ]
    assert (sample.key, Sample(17, "h", None, []).key) == (b"h/3", b"h")


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("interval_ms = 10", "interval_ms=10 must be at least 100"),
        ("silence_s = 0", "silence_s=0 must be greater than 0"),
        ('events_topic = "operations"', "topic and events_topic are both 'operations'"),
        ('[[thresholds]]\nname = "x"\nmetric = "m"', "threshold 'x': give either above or below"),
        ('[[thresholds]]\nname = "x"\nmetric = "m"\nabove = 1\nbelow = 2', "threshold 'x': give either above or below"),
        ('[[thresholds]]\nname = "x"\nmetric = "m"\nabove = 1\nclear = 2', "clear=2 is higher than above=1"),
        ('[[thresholds]]\nname = "x"\nmetric = "m"\nbelow = 2\nclear = 1', "clear=1 is lower than below=2"),
        ('[[thresholds]]\nname = "x"\nmetric = "m"\nabove = 1\nfor_s = -1', "for_s=-1"),
        (
            '[[thresholds]]\nname = "x"\nmetric = "m"\nabove = 1\n[[thresholds]]\nname = "x"\nmetric = "n"\nabove = 1',
            "'x' is there twice",
        ),
        (
            '[[thresholds]]\nname = "x"\nmetric = "disk.used_fracton"\nabove = 1',
            "threshold 'x': no figure is called 'disk.used_fracton'; disk.used_fraction, ",
        ),
        ('[[brokers]]\nid = 1\nmetrics = "host:7"', "metrics='host:7' must be http://host:port/metrics"),
        ('[minutes]\ncheckpoint = "c"', "minutes: give either table or topic"),
    ],
)
def test_what_cannot_be_is_refused_by_name(tmp_path: Path, more: str, told: str) -> None:
    path = tmp_path / "operations.toml"
    plain, bracket, tables = more.partition("[")
    path.write_text(f'{plain}\n[cluster]\nbootstrap_servers = "b:9092"\n{bracket}{tables}\n')
    with pytest.raises(ConfigError) as refused:
        load_config(path, [], OperationsConfig)
    assert told in str(refused.value)
