"""Configurations of one broker that another one is asked for, and of topics that it has no replica of."""

from tests.differential.cluster_conversation import BROKERS, NOBODY, ClusterConversation
from tests.differential.requests import BROKER, LOGGER, SET, TOPIC, alter, change, describe

BACKOFF = "log.cleaner.backoff.ms"


def brokers_described_by_others(talk: ClusterConversation) -> None:
    for version in (0, 3):
        for name in ("1", "2", "9", "", "x"):
            request = describe((BROKER, name, ["num.partitions", "broker.id", "broker.rack"]))
            talk.at(1).ask(f"broker {name!r}, version {version}", version, request)
    talk.at(1).ask("loggers of another", 2, describe((LOGGER, "2", ["kafka.server.KafkaApis"])))


def brokers_altered_by_others(talk: ClusterConversation) -> None:
    for name in ("2", "9", "x"):
        talk.at(1).ask(f"broker {name!r}, altered", 1, alter((BROKER, name, {BACKOFF: "4000"}), validate_only=True))
        request = change((BROKER, name, [(BACKOFF, SET, "4000")]), validate_only=True)
        talk.at(1).ask(f"broker {name!r}, changed", 1, request)
    talk.at(1).ask("loggers of another", 1, change((LOGGER, "2", [("kafka.server.KafkaApis", SET, "INFO")])))


def a_default_of_the_cluster(talk: ClusterConversation) -> None:
    for broker in BROKERS:
        request = change((BROKER, "", [(BACKOFF, SET, "4000")]), validate_only=True)
        talk.at(broker).ask(f"tried by broker {broker}", 1, request)


def topics_described_and_altered_by_any(talk: ClusterConversation) -> None:
    topic = talk.new_topic([1, 2])
    for broker in BROKERS:
        wanted = {"retention.ms": str(broker * 1_000_000)}
        talk.at(broker).ask(f"altered by broker {broker}", 1, alter((TOPIC, topic, wanted)))
        request = change((TOPIC, topic, [("segment.ms", SET, str(broker * 1_000_000))]))
        talk.at(broker).ask(f"changed by broker {broker}", 1, request)
        talk.at(broker).ask(
            f"described by broker {broker}", 3, describe((TOPIC, topic, ["retention.ms", "segment.ms"]), synonyms=True)
        )


def throttled_replicas(talk: ClusterConversation) -> None:
    topic = talk.new_topic([1, 2])
    for name, value in (("all", "*"), ("of brokers", "0:1,0:2"), ("of nobody", f"0:{NOBODY}"), ("none", "")):
        for key in ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas"):
            request = change((TOPIC, topic, [(key, SET, value)]), validate_only=True)
            talk.at(1).ask(f"{key}, {name}", 1, request)
