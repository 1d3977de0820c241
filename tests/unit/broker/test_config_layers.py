"""What ZooKeeper may set for brokers: what is refused of a client, and what is left out of what stands there."""

import pytest

from broker.config import BrokerConfig, resolve_broker_config
from broker.config_effects import controller_settings
from broker.config_keys import BROKER_KEYS, DYNAMIC_ONLY_KEYS
from broker.config_keys.key import REQUIRED, render_value
from broker.config_layers import DynamicConfigRefused, check_change, lay
from broker.log_cleaning import cleaner_settings
from broker.log_scrubbing import scrub_settings
from broker.topic_configs import resolve_topic


def config(**given: str) -> BrokerConfig:
    texts = {name.replace("_", "."): text for name, text in given.items()}
    return resolve_broker_config({"zookeeper.connect": "z"} | texts)


def change(present: BrokerConfig, name: str, text: str, *, of_this_broker: bool = True) -> BrokerConfig:
    return check_change(present, {name: text}, changed=[name], of_this_broker=of_this_broker)


def laid(of_all: dict[str, str], of_this: dict[str, str], **given: str) -> tuple[BrokerConfig, list[str]]:
    return lay(config(**given), of_all_brokers=of_all, of_this_broker=of_this)


def test_a_broker_s_own_layer_stands_over_that_of_all_and_that_over_the_file() -> None:
    key = "log.segment.bytes"
    made, _ = laid({}, {}, log_segment_bytes="1000")
    assert made.values[key] == 1000
    made, _ = laid({key: "2000"}, {}, log_segment_bytes="1000")
    assert made.values[key] == 2000
    made, _ = laid({key: "2000"}, {key: "3000"}, log_segment_bytes="1000")
    assert made.values[key] == 3000
    assert made.layers.static[key] == "1000"
    made, _ = lay(made, of_all_brokers={}, of_this_broker={})
    assert made.values[key] == 1000


def test_the_name_of_the_machine_stays() -> None:
    present = resolve_broker_config({"zookeeper.connect": "z"}, host_name="h")
    made, _ = lay(present, of_all_brokers={"message.max.bytes": "7"}, of_this_broker={})
    assert made.host_name == "h"
    assert [each.host for each in made.listeners.advertised] == [each.host for each in present.listeners.advertised]


@pytest.mark.parametrize("of_this_broker", [True, False])
@pytest.mark.parametrize("name", sorted(BROKER_KEYS))
def test_every_key_acts_when_it_is_changed_or_is_refused_by_name(name: str, *, of_this_broker: bool) -> None:
    key = BROKER_KEYS[name]
    text = "5" if key.default in (None, REQUIRED) else render_value(key.default)
    assert text is not None
    if key.is_changeable:
        made = change(config(), name, text, of_this_broker=of_this_broker)
        assert made.layers.dynamic(name) == text
    else:
        with pytest.raises(DynamicConfigRefused, match=name):
            change(config(), name, text, of_this_broker=of_this_broker)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("no.such.key", "1"),
        ("listener.name.internal.ssl.keystore.location", "/x"),
        ("broker.id", "2"),
        ("num.io.threads", "9"),
        ("listeners", "PLAINTEXT://:1"),
        ("password.encoder.secret", "x"),
        ("log.segment.bytes", "13"),
        ("log.segment.bytes", "many"),
        ("log.retention.ms", "0"),
        ("num.replica.fetchers", "3"),
        ("num.replica.fetchers", "0"),
        ("max.connections.per.ip", "0"),
        ("max.connections.per.ip.overrides", "127.0.0.1"),
        ("leader.replication.throttled.rate", "-1"),
        ("leader.replication.throttled.rate", "fast"),
    ],
)
def test_what_cannot_be_is_refused_by_name_and_left_out_where_it_stands(name: str, text: str) -> None:
    with pytest.raises(DynamicConfigRefused, match=name):
        change(config(), name, text)
    if name == "num.replica.fetchers" and text == "3":
        return
    made, left_out = laid({"message.max.bytes": "7"}, {name: text})
    assert len(left_out) == 1
    assert name in left_out[0]
    assert made.layers.of_this_broker == {}
    assert made.values["message.max.bytes"] == 7


def test_what_the_file_forbids_together_with_it_is_left_out_alone() -> None:
    of_all = {"max.connections.per.ip": "0", "message.max.bytes": "7"}
    made, left_out = laid(of_all, {"log.segment.bytes": "1000"})
    assert [name for name in of_all if any(name in reason for reason in left_out)] == ["max.connections.per.ip"]
    assert made.layers.of_all_brokers == {"message.max.bytes": "7"}
    assert made.layers.of_this_broker == {"log.segment.bytes": "1000"}


def test_what_is_good_only_together_is_taken_together() -> None:
    both = {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:5"}
    made, left_out = laid(both, {})
    assert (made.max_connections_per_ip, left_out) == (0, [])
    with pytest.raises(DynamicConfigRefused):
        check_change(made, {"max.connections.per.ip": "0"}, changed=both, of_this_broker=False)


def test_a_weaker_layer_stands_where_the_stronger_cannot_be() -> None:
    made, _ = laid({"log.segment.bytes": "2000"}, {"log.segment.bytes": "x"})
    assert made.values["log.segment.bytes"] == 2000


def test_numbers_of_threads_change_by_half_or_double_of_what_they_are() -> None:
    present, _ = laid({"num.replica.fetchers": "4"}, {})
    for count in ("2", "3", "4", "8"):
        change(present, "num.replica.fetchers", count)
    for count in ("1", "9"):
        with pytest.raises(DynamicConfigRefused, match="2 to 8"):
            change(present, "num.replica.fetchers", count)
    with pytest.raises(DynamicConfigRefused):
        check_change(present, {}, changed=["num.replica.fetchers"], of_this_broker=False)


def test_what_stood_there_before_and_is_left_out_does_not_forbid_another_change() -> None:
    wanted = {"num.io.threads": "9", "log.roll.ms": "x", "log.segment.bytes": "1000"}
    check_change(config(), wanted, changed=["log.segment.bytes"], of_this_broker=True)
    with pytest.raises(DynamicConfigRefused, match=r"num\.io\.threads"):
        check_change(config(), wanted, changed=wanted, of_this_broker=True)


def test_what_is_set_in_zookeeper_alone_does_not_act_from_the_file() -> None:
    for name in DYNAMIC_ONLY_KEYS:
        present = resolve_broker_config({"zookeeper.connect": "z", name: "5"})
        assert present.layers.dynamic(name) is None
        assert any(name in warning for warning in present.warnings)
        made, left_out = lay(present, of_all_brokers={name: "7"}, of_this_broker={})
        assert (made.layers.dynamic(name), left_out) == ("7", [])


@pytest.mark.parametrize("name", sorted(name for name, key in BROKER_KEYS.items() if key.is_changeable))
def test_no_value_that_is_taken_breaks_what_is_made_of_it(name: str) -> None:
    for text in (
        "-9223372036854775808",
        "-1",
        "0",
        "1",
        "2147483647",
        "9223372036854775807",
        "0.0",
        "1e308",
        "",
        "true",
    ):
        made, left_out = laid({name: text}, {})
        assert len(left_out) == (name not in made.layers.of_all_brokers)
        resolve_topic(made, {})
        controller_settings(made)
        cleaner_settings(made)
        scrub_settings(made)
