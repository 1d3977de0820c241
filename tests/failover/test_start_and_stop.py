"""Starts that must not be, stops that leave all in order, and a process that ends itself when its loop hangs."""

from pathlib import Path

import pytest

from barnabas.launcher.compiled import is_current
from barnabas.launcher.compiling import what_is_missing
from barnabas.runtime.packages import own_root
from tests.failover.conftest import MakeBroker
from tests.support.api_client import ApiConnection, batch_of
from tests.support.faulty_broker import ENTRY
from tests.support.faulty_disk import PWRITE, Fault, FaultControl
from tests.support.load_client import LoadClient, read_everything
from tests.support.load_history import LoadHistory
from tests.support.topics import create_topic, wait_for_leaders

pytestmark = pytest.mark.processes

MARKER = ".kafka_cleanshutdown"
HANG_EXIT = 70


def test_the_second_broker_with_an_id_stops_with_a_clear_message(make_broker: MakeBroker) -> None:
    first, second = make_broker(), make_broker()
    first.start()
    second.launch()
    assert second.wait_for_end() == 1
    said = "cannot start: broker.id=1: broker id 1 is taken: session 0x"
    assert said in second.output_of_this_life
    assert f"at PLAINTEXT://{first.bootstrap}" in second.output_of_this_life
    create_topic(first.bootstrap, "the-first-serves-on")


def test_the_second_broker_on_a_log_directory_stops_with_a_clear_message(make_broker: MakeBroker) -> None:
    first = make_broker()
    second = make_broker(broker_id=2, log_directory=first.log_directory)
    first.start()
    second.launch()
    assert second.wait_for_end() == 1
    said = f"cannot start: log directory {first.log_directory} is in use by another process"
    assert said in second.output_of_this_life
    create_topic(first.bootstrap, "the-first-serves-on")


def test_the_second_broker_on_a_port_stops_with_a_clear_message(make_broker: MakeBroker) -> None:
    first = make_broker()
    second = make_broker({"listeners": f"PLAINTEXT://{first.bootstrap}"}, broker_id=2)
    first.start()
    second.launch()
    assert second.wait_for_end() == 1
    assert f"cannot start: listeners=PLAINTEXT://{first.bootstrap}" in second.output_of_this_life
    create_topic(first.bootstrap, "the-first-serves-on")


def test_brokers_run_compiled_where_there_is_a_compiler(make_broker: MakeBroker) -> None:
    if (missing := what_is_missing()) is not None:
        pytest.skip(f"{missing} is not here")
    if not is_current(own_root()):
        pytest.skip("the compiled copy is missing or of other sources: make compiled")
    broker = make_broker()
    broker.start()
    assert "way of records compiled" in broker.output_of_this_life


def test_python_without_assertions_is_refused(make_broker: MakeBroker) -> None:
    broker = make_broker(python_options=["-O"])
    broker.launch()
    assert broker.wait_for_end() == 1
    assert "python -O switches assertions off" in broker.output_of_this_life


def test_after_a_clean_stop_nothing_is_scanned(make_broker: MakeBroker) -> None:
    broker = make_broker()
    broker.start()
    partitions = create_topic(broker.bootstrap, "t", partitions=3)
    history = LoadHistory()
    with LoadClient(broker.bootstrap, partitions, history) as load:
        load.wait_for_acknowledgements(1000)
        assert broker.stop() == 0
        assert (broker.log_directory / MARKER).exists()
        broker.start()
        load.wait_for_acknowledgements(1000)
    assert f"{broker.log_directory}: loaded 3 logs" in broker.output_of_this_life
    assert "after a clean stop" in broker.output_of_this_life
    assert "recovered: scanned" not in broker.output_of_this_life
    assert not (broker.log_directory / MARKER).exists()
    assert history.given_up == []
    assert history.anomalies(read_everything(broker.bootstrap, partitions)) == []


def test_after_a_kill_everything_is_scanned(make_broker: MakeBroker) -> None:
    broker = make_broker()
    broker.start()
    partitions = create_topic(broker.bootstrap, "t", partitions=3)
    broker.kill()
    broker.start()
    wait_for_leaders(broker.bootstrap, partitions)
    assert "after an unclean stop" in broker.output_of_this_life
    assert broker.output_of_this_life.count("recovered: scanned 1 segments, 0 batches, 0 bytes") == len(partitions)


def test_a_broker_whose_loop_hangs_for_a_session_ends_itself(make_broker: MakeBroker, tmp_path: Path) -> None:
    faults = FaultControl(tmp_path / "faults")
    broker = make_broker(entry=ENTRY, environment=faults.environment)
    broker.start()
    (partition,) = create_topic(broker.bootstrap, "t")
    faults.set(Fault(PWRITE, "/t-0/", delay_ms=60_000))
    with ApiConnection(broker.host, broker.port) as client:
        client.send_produce(partition, batch_of([b"into a disk that hangs"]))
        assert broker.wait_for_end(seconds=10) == HANG_EXIT
    assert "the event loop has not turned for 1500 ms: ending the process" in broker.output_of_this_life
