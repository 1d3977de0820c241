"""Listeners, advertised listeners, security protocols and the listener between brokers."""

import pytest

from broker.config import resolve_broker_config
from broker.config_keys.key import ConfigError
from broker.config_listeners import Listener, Listeners


def listeners(**given: str) -> Listeners:
    texts = {name.replace("_", "."): text for name, text in given.items()}
    return resolve_broker_config({"zookeeper.connect": "localhost"} | texts).listeners


def test_without_listeners_there_is_one_on_every_interface() -> None:
    resolved = resolve_broker_config({"zookeeper.connect": "z"}, host_name="machine").listeners
    assert resolved.bound == (Listener("PLAINTEXT", "", 9092),)
    assert resolved.advertised == (Listener("PLAINTEXT", "machine", 9092),)
    assert resolved.reachable(":7") == "machine:7"
    assert resolved.inter_broker_name == "PLAINTEXT"


def test_host_name_and_port_make_the_listener_where_there_is_none() -> None:
    assert listeners(host_name="127.0.0.1", port="9").bound == (Listener("PLAINTEXT", "127.0.0.1", 9),)


def test_advertised_host_and_port_fill_in_each_other() -> None:
    assert listeners(port="9", advertised_host_name="example.org").advertised == (
        Listener("PLAINTEXT", "example.org", 9),
    )
    assert listeners(host_name="127.0.0.1", advertised_port="10").advertised == (
        Listener("PLAINTEXT", "127.0.0.1", 10),
    )


def test_named_listeners_map_to_protocols() -> None:
    resolved = listeners(
        listeners="internal://127.0.0.1:0, EXTERNAL://[::1]:0",
        advertised_listeners="INTERNAL://a:1,EXTERNAL://b:1",
        listener_security_protocol_map="INTERNAL:plaintext,EXTERNAL:PLAINTEXT",
        inter_broker_listener_name="internal",
    )
    assert [str(each) for each in resolved.bound] == ["INTERNAL://127.0.0.1:0", "EXTERNAL://[::1]:0"]
    assert [str(each) for each in resolved.advertised] == ["INTERNAL://a:1", "EXTERNAL://b:1"]
    assert resolved.inter_broker == resolved.bound[0]


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"listeners": "PLAINTEXT//:9092"}, "listeners"),
        ({"listeners": "PLAINTEXT://:99999"}, "listeners"),
        ({"listeners": "PLAINTEXT://:-1"}, "listeners"),
        ({"listeners": ""}, "listeners"),
        ({"listeners": "OTHER://:1"}, "listeners"),
        ({"listeners": "SSL://:1"}, "listeners"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "listeners"),
        (
            {"listeners": "PLAINTEXT://:1,A://:1", "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,A:PLAINTEXT"},
            "listeners",
        ),
        ({"advertised_listeners": "PLAINTEXT://0.0.0.0:1"}, "advertised.listeners"),
        (
            {"advertised_listeners": "A://h:1", "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,A:PLAINTEXT"},
            "advertised.listeners",
        ),
        ({"listener_security_protocol_map": "PLAINTEXT:TELNET"}, "listener.security.protocol.map"),
        ({"listener_security_protocol_map": "PLAINTEXT"}, "listener.security.protocol.map"),
        ({"inter_broker_listener_name": "NOBODY"}, "inter.broker.listener.name"),
        ({"security_inter_broker_protocol": "SSL"}, "inter.broker.listener.name"),
        ({"security_inter_broker_protocol": "TELNET"}, "security.inter.broker.protocol"),
        (
            {"inter_broker_listener_name": "PLAINTEXT", "security_inter_broker_protocol": "PLAINTEXT"},
            "inter.broker.listener.name",
        ),
        ({"barnabas_control_listener": "nowhere"}, "barnabas.control.listener"),
    ],
)
def test_listeners_that_contradict_themselves_stop_the_start(given: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError) as refused:
        listeners(**given)
    assert refused.value.key == key


def test_the_control_listener_is_beside_the_one_between_brokers_unless_set() -> None:
    given = {"zookeeper.connect": "z", "listeners": "PLAINTEXT://127.0.0.1:9092"}
    resolved = resolve_broker_config(given)
    assert (resolved.control_host, resolved.control_port) == ("127.0.0.1", 0)
    resolved = resolve_broker_config(given | {"barnabas.control.listener": "[::1]:7"})
    assert (resolved.control_host, resolved.control_port) == ("::1", 7)


@pytest.mark.parametrize(
    ("endpoint", "told"),
    [
        ("0.0.0.0:7", "broker-1:7"),
        ("[::]:7", "broker-1:7"),
        (":7", "broker-1:7"),
        ("10.0.0.1:7", "10.0.0.1:7"),
        ("[::1]:7", "[::1]:7"),
    ],
)
def test_an_endpoint_on_every_interface_is_told_with_the_advertised_host(endpoint: str, told: str) -> None:
    resolved = listeners(
        listeners="IN://0.0.0.0:1,OUT://0.0.0.0:2",
        advertised_listeners="OUT://localhost:2,IN://broker-1:1",
        listener_security_protocol_map="IN:PLAINTEXT,OUT:PLAINTEXT",
        inter_broker_listener_name="IN",
    )
    assert resolved.reachable(endpoint) == told
    assert listeners(host_name="::1").reachable("[::]:7") == "[::1]:7"
