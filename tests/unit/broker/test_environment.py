"""Keys from environment variables, as the image apache/kafka reads them."""

import logging
from pathlib import Path

import pytest

from broker.config_keys.key import ConfigError
from broker.environment import read_environment
from broker.main import read_config

REQUIRED = {"KAFKA_ZOOKEEPER_CONNECT": "z:2181"}


@pytest.mark.parametrize(
    ("variable", "key"),
    [
        ("KAFKA_LOG_DIRS", "log.dirs"),
        ("KAFKA_CFG_LOG_DIRS", "log.dirs"),
        ("KAFKA_A__B_C___D", "a_b.c-d"),
        ("KAFKA_LISTENER_NAME_INTERNAL_SSL_KEYSTORE_LOCATION", "listener.name.internal.ssl.keystore.location"),
    ],
)
def test_a_variable_sets_the_key_of_its_name(variable: str, key: str) -> None:
    read = read_environment({variable: "Value = 1"})
    assert (dict(read.given), dict(read.origins)) == ({key: "Value = 1"}, {key: variable})


def test_other_variables_set_nothing() -> None:
    assert read_environment({"PATH": "/bin", "KAFKA": "x", "KAFKA_": "x", "MY_KAFKA_LOG_DIRS": "x"}).given == {}


def test_what_is_meant_for_java_is_named_and_sets_nothing() -> None:
    read = read_environment({"KAFKA_HEAP_OPTS": "-Xmx1G", "KAFKA_OPTS": ""})
    assert (read.given, read.ignored) == ({}, ("KAFKA_HEAP_OPTS", "KAFKA_OPTS"))


def test_two_variables_of_one_key_must_agree() -> None:
    assert read_environment({"KAFKA_LOG_DIRS": "/a", "KAFKA_CFG_LOG_DIRS": "/a"}).given == {"log.dirs": "/a"}
    with pytest.raises(ConfigError, match=r"log\.dirs.*KAFKA_CFG_LOG_DIRS and KAFKA_LOG_DIRS differ"):
        read_environment({"KAFKA_LOG_DIRS": "/a", "KAFKA_CFG_LOG_DIRS": "/b"})


def test_a_name_with_four_underscores_in_a_row_is_refused() -> None:
    with pytest.raises(ConfigError, match="KAFKA_A____B"):
        read_environment({"KAFKA_A____B": "x"})


def test_advertised_listeners_alone_listen_on_every_interface() -> None:
    advertised = {"KAFKA_ADVERTISED_LISTENERS": "IN://b-1:9092,OUT://[::1]:19092"}
    assert read_environment(advertised).given["listeners"] == "IN://0.0.0.0:9092,OUT://0.0.0.0:19092"
    own = advertised | {"KAFKA_LISTENERS": "IN://:1,OUT://:2"}
    assert read_environment(own).given["listeners"] == "IN://:1,OUT://:2"


def test_an_override_goes_before_a_variable_and_that_before_the_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "broker")
    file = tmp_path / "server.properties"
    file.write_text("broker.id=1\nbroker.rack=file\nnum.partitions=7\nssl.key.password=s3cret\nwhat.is.this=s3cret\n")
    variables = REQUIRED | {"KAFKA_BROKER_ID": "2", "KAFKA_BROKER_RACK": "variable", "KAFKA_HEAP_OPTS": "-Xmx1G"}
    config = read_config(str(file), {"broker.id": "3"}, variables)
    assert (config.broker_id, config.broker_rack, config.num_partitions) == (3, "variable", 7)
    for line in (
        "broker.id=3 (override)",
        "broker.rack=variable (KAFKA_BROKER_RACK)",
        f"num.partitions=7 ({file})",
        f"ssl.key.password=[hidden] ({file})",
        "KAFKA_HEAP_OPTS: set for a Java process; no effect here",
    ):
        assert line in caplog.messages
    assert "s3cret" not in caplog.text


def test_variables_alone_are_enough() -> None:
    assert read_config(None, {}, REQUIRED).zookeeper_connect == "z:2181"
