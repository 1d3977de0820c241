"""librdkafka gives a transaction the sequences of one that it aborted: no record of the later one is lost for that."""

from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.failover.bank import read_by_librdkafka
from tests.failover.load.transactional_clients import has_renumbered
from tests.failover.world.view import ClusterView
from tests.support.cluster import new_cluster

SECONDS: Final = 30.0
TOPIC: Final = "renumbered"
PROPERTIES: Final = {"min.insync.replicas": "2", "transaction.state.log.num.partitions": "1"}


class Words:
    """What librdkafka logs, as a logger of Python's is told it."""

    def __init__(self) -> None:
        self.text = ""

    def log(self, _level: int, words: str, *arguments: object) -> None:
        self.text += words % arguments + "\n"


@pytest.mark.processes
@pytest.mark.timeout(120)
@pytest.mark.parametrize("records", [40, 30], ids=["as many", "fewer"])
def test_what_is_numbered_like_an_aborted_transaction_is_written_or_refused(tmp_path: Path, records: int) -> None:
    words = Words()
    with new_cluster(tmp_path, brokers=3, properties=PROPERTIES) as cluster:
        settings = {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "one"}
        producer = Producer({**settings, "linger.ms": 2, "debug": "eos"}, logger=words)
        producer.init_transactions(SECONDS)
        view = ClusterView(cluster.connect_string)
        coordinator = next(iter(view.partitions(["__transaction_state"]).values())).leader
        leader, other = (broker for broker in (1, 2, 3) if broker != coordinator)
        topic = NewTopic(TOPIC, 1, replica_assignment=[[leader, coordinator, other]])
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.create_topics([topic])[TOPIC].result(SECONDS)

        producer.begin_transaction()
        producer.produce(TOPIC, b"first", partition=0)
        assert producer.flush(SECONDS) == 0
        # One follower does not answer: the batch stands on the other, and nobody says so to the client.
        cluster.pause(other)
        for _ in range(40):
            producer.produce(TOPIC, b"aborted", partition=0)
        assert producer.flush(0.5) > 0
        cluster.kill(leader)
        cluster.resume(other)
        producer.abort_transaction(SECONDS)

        producer.begin_transaction()
        for _ in range(records):
            producer.produce(TOPIC, b"refused", partition=0)
        with pytest.raises(KafkaException) as raised:
            producer.commit_transaction(SECONDS)
        error = raised.value.args[0]
        assert error.fatal()
        assert error.code() == KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
        producer.poll(0)
        assert has_renumbered(words.text), words.text

        again = Producer(settings)
        again.init_transactions(SECONDS)
        again.begin_transaction()
        again.produce(TOPIC, b"written", partition=0)
        again.commit_transaction(SECONDS)
        assert read_by_librdkafka(cluster.bootstrap_servers, TOPIC, 1) == [[b"written"]]
        view.close()
