"""The agent as a process: figures of host and broker arrive every second, thresholds raise and clear once."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from barnabas.pipeline.operations.figures import Sample, decode
from tests.pipeline.mirror.clusters import MirrorProcess, delete_topic, eventually, make_topic, partition_count, read
from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.processes]


def config(broker: BrokerProcess, name: str, **more: Any) -> dict[str, Any]:
    return {
        "topic": name,
        "events_topic": f"{name}-events",
        "host": "here",
        "interval_ms": 200,
        "discover_s": 1,
        **more,
        "cluster": {"bootstrap_servers": broker.bootstrap},
    }


def samples(broker: BrokerProcess, topic: str) -> list[Sample]:
    return [decode(each.value or b"") for each in read(broker, topic)]


def events(broker: BrokerProcess, topic: str) -> list[dict[str, Any]]:
    if not partition_count(broker, topic):
        return []
    return [json.loads(each.value or b"") for each in read(broker, topic)]


def test_figures_of_host_and_broker_arrive_one_by_one(measured: BrokerProcess, tmp_path: Path) -> None:
    with MirrorProcess(tmp_path, config(measured, "figures"), job="operations") as agent:
        agent.start()
        eventually(
            lambda: partition_count(measured, "figures") == 1 and len(samples(measured, "figures")) >= 20, "they arrive"
        )
        assert agent.stop() == 0, agent.output
    found = samples(measured, "figures")
    host = [each for each in found if each.broker is None]
    broker = [each for each in found if each.broker == 1]
    assert len(host) == len(broker)
    assert [each.time for each in host] == sorted(each.time for each in host)
    assert all(later.time - earlier.time >= 100 for earlier, later in itertools.pairwise(host))
    of_host = {each.metric for each in host[-1].figures}
    assert {"cpu.used_fraction", "memory.used_fraction", "disk.used_fraction", "disk.written_bytes_per_s"} <= of_host
    disks = {each.labels["disk"] for each in host[-1].figures if each.metric == "disk.used_fraction"}
    assert disks == {"/", str(measured.log_directory)}
    of_broker = {each.metric: each.value for each in broker[-1].figures}
    assert {"process.cpu_cores", "process.memory_bytes", "requests.per_s", "requests.p99_ms", "bytes_in_per_s"} <= set(
        of_broker
    )
    assert of_broker["broker.up"] == 1
    assert of_broker["process.memory_bytes"] == pytest.approx(measured.resident_bytes(), rel=0.3)
    produced = [
        figure.value
        for each in broker
        for figure in each.figures
        if figure.metric == "requests.per_s" and figure.labels == {"request": "Produce"}
    ]
    assert max(produced) > 0
    assert agent.report["counts"]["samples"] == len(found)


def test_what_is_too_much_is_raised_once_and_cleared_once(measured: BrokerProcess, tmp_path: Path) -> None:
    limit = {"name": "many partitions", "metric": "partitions.count", "above": 60, "clear": 30, "for_s": 0.3}
    given = config(measured, "limits")
    process = MirrorProcess(tmp_path, given, job="operations")
    process.config_path.write_text(
        process.config_path.read_text()
        + "[[thresholds]]\n"
        + "".join(f"{k} = {json.dumps(v)}\n" for k, v in limit.items())
    )
    with process as agent:
        agent.start()
        eventually(lambda: partition_count(measured, "limits") == 1, "it works")
        make_topic(measured, "heavy", 70)
        eventually(lambda: len(events(measured, "limits-events")) == 1, "it is raised")
        agent.kill()
        agent.start()
        agent.wait_for("raised: many partitions")
        before = len(samples(measured, "limits"))
        eventually(lambda: len(samples(measured, "limits")) > before + 10, "it goes on")
        assert len(events(measured, "limits-events")) == 1, "not raised a second time"
        delete_topic(measured, "heavy")
        eventually(lambda: len(events(measured, "limits-events")) == 2, "it is cleared")
        assert agent.stop() == 0, agent.output
    raised, cleared = events(measured, "limits-events")
    assert (raised["event"], cleared["event"]) == ("raised", "cleared")
    assert (raised["threshold"], raised["broker"], raised["limit"]) == ("many partitions", 1, 60)
    assert raised["value"] > 60
    assert cleared["value"] <= 30
    assert "RAISED many partitions: partitions.count of broker 1 on here" in agent.output
    assert "CLEARED many partitions" in agent.output


def test_a_broker_that_is_down_is_told_when_it_is_back(measured: BrokerProcess, tmp_path: Path) -> None:
    process = MirrorProcess(tmp_path, config(measured, "down"), job="operations")
    process.config_path.write_text(
        process.config_path.read_text() + '[[thresholds]]\nname = "down"\nmetric = "broker.up"\nbelow = 1\n'
    )
    with process as agent:
        agent.start()
        eventually(lambda: partition_count(measured, "down") == 1 and len(samples(measured, "down")) > 5, "it works")
        measured.kill()
        agent.wait_for("RAISED down: broker.up of broker 1 on here is 0")
        measured.start()
        agent.wait_for("CLEARED down")
        eventually(lambda: len(events(measured, "down-events")) == 2, "both are written")
        assert agent.stop() == 0, agent.output
    assert [each["event"] for each in events(measured, "down-events")] == ["raised", "cleared"]
