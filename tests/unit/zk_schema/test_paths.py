import pytest

from zk_schema import paths


def test_paths_are_kafkas() -> None:
    assert paths.broker(3) == "/brokers/ids/3"
    assert paths.topic("t") == "/brokers/topics/t"
    assert paths.partition_state("t", 7) == "/brokers/topics/t/partitions/7/state"
    assert paths.topic_config("t") == "/config/topics/t"
    assert paths.delete_topic("t") == "/admin/delete_topics/t"
    assert paths.broker_config(1) == "/config/brokers/1"
    assert paths.broker_config(None) == "/config/brokers/<default>"
    assert paths.consumer_offset(group="g", topic_name="t", partition_number=0) == "/consumers/g/offsets/t/0"
    assert paths.delegation_token("x") == "/delegation_token/tokens/x"


def test_quota_entities_may_be_a_user_a_client_or_the_pair() -> None:
    assert paths.quota_entity(user="u") == "users/u"
    assert paths.quota_entity(client_id="c") == "clients/c"
    assert paths.quota_entity(user="u", client_id=paths.DEFAULT_ENTITY) == "users/u/clients/<default>"
    assert paths.entity_config(paths.quota_entity(user="a b")) == "/config/users/a%20b"


def test_the_extended_acl_path_spells_the_pattern_in_lower_case() -> None:
    assert paths.acl(resource_type="Topic", name="t") == "/kafka-acl/Topic/t"
    extended = paths.acl(resource_type="Topic", name="t", pattern_type="PREFIXED")
    assert extended == "/kafka-acl-extended/prefixed/Topic/t"


@pytest.mark.parametrize(
    ("name", "encoded"),
    [
        ("plain.A-1_z", "plain.A-1_z"),
        ("*", "%2A"),
        ("a b", "a%20b"),
        ("~/+%", "%7E%2F%2B%25"),
        ("CN=ü,O=x", "CN%3D%C3%BC%2CO%3Dx"),
    ],
)
def test_entity_names_are_encoded_as_kafka_does(name: str, encoded: str) -> None:
    assert paths.sanitize(name) == encoded
    assert paths.desanitize(encoded) == name


def test_the_paths_of_a_start_are_those_of_kafka() -> None:
    assert set(paths.PERSISTENT_PATHS) == {
        "/consumers",
        "/brokers/ids",
        "/brokers/topics",
        "/config/changes",
        "/admin/delete_topics",
        "/brokers/seqid",
        "/isr_change_notification",
        "/latest_producer_id_block",
        "/log_dir_event_notification",
        "/config/topics",
        "/config/clients",
        "/config/users",
        "/config/brokers",
    }


def test_parents_go_from_the_top_down() -> None:
    assert paths.parents("/a/b/c") == ["/a", "/a/b"]
    assert paths.parents("/a") == []
