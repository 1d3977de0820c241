"""Options of the sink become values; what cannot act is refused by name."""

import pytest

from barnabas.pipeline.given_options import OptionError
from barnabas.pipeline.sink.options import (
    BatchNumber,
    Sending,
    SinkOptions,
    is_topic,
    parse_batch_options,
    parse_stream_options,
)
from barnabas.protocol.batch import Codec

SERVERS = {"kafka.bootstrap.servers": "a:1,b:2"}


def test_nothing_but_brokers_is_needed() -> None:
    assert parse_batch_options(SERVERS) == SinkOptions("a:1,b:2")
    assert parse_stream_options({**SERVERS, "checkpointLocation": "x", "queryName": "q"}) == SinkOptions("a:1,b:2")


def test_all_that_acts_is_taken() -> None:
    given = {
        **SERVERS,
        "TOPIC": "t",
        "transactionalIdPrefix": "p",
        "txnAppId": "app",
        "txnVersion": "7",
        "kafka.acks": "-1",
        "kafka.enable.idempotence": "true",
        "kafka.security.protocol": "plaintext",
        "kafka.transaction.timeout.ms": "1",
        "kafka.client.id": "c",
        "kafka.compression.type": "ZSTD",
        "kafka.max.in.flight.requests.per.connection": "2",
        "kafka.batch.size": "3",
        "kafka.linger.ms": "0",
        "kafka.buffer.memory": "40",
        "kafka.max.request.size": "5",
        "kafka.delivery.timeout.ms": "6",
        "kafka.request.timeout.ms": "7",
        "kafka.socket.connection.setup.timeout.ms": "8",
        "kafka.max.block.ms": "9",
    }
    assert parse_batch_options(given) == SinkOptions(
        "a:1,b:2",
        topic="t",
        transactional_id_prefix="p",
        transaction_timeout_ms=1,
        batch_number=BatchNumber("app", 7),
        sending=Sending("c", Codec.ZSTD, 3, 0, 40, 5, 2, 6, 7, 8, 9),
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kafka.bootstrap.servers": ""}, "it must name brokers"),
        ({"topic": "a/b"}, "option topic='a/b': it is no name of a topic"),
        ({"path": "t"}, "option path='t': topics are named by the option topic or a column topic"),
        ({"kafka.acks": "1"}, "option kafka.acks='1': it must be all"),
        ({"kafka.enable.idempotence": "false"}, "it must be true: this sink is always idempotent"),
        ({"kafka.security.protocol": "SSL"}, "this client speaks PLAINTEXT only"),
        ({"kafka.compression.type": "brotli"}, "it must be one of none, gzip, snappy, lz4, zstd"),
        ({"kafka.max.in.flight.requests.per.connection": "6"}, "it must be 1 to 5"),
        ({"kafka.batch.size": "0"}, "it must be greater than 0"),
        ({"kafka.batch.size": "20000000"}, "option kafka.buffer.memory: it is less than four batches"),
        ({"kafka.buffer.memory": "2000000000"}, "it is more than 1073741824"),
        ({"kafka.transactional.id": "x"}, "every task has one of its own; say transactionalIdPrefix"),
        ({"kafka.transaction.timeout.ms": "1"}, "it acts on transactions; give a transactionalIdPrefix as well"),
        ({"transactionalIdPrefix": ""}, "it must not be empty"),
        ({"txnAppId": "a"}, "option txnAppId='a': txnAppId and txnVersion go together"),
        ({"txnVersion": "1"}, "option txnVersion='1': txnAppId and txnVersion go together"),
        ({"txnAppId": "a", "txnVersion": "1"}, "it acts on transactions; give a transactionalIdPrefix as well"),
        ({"txnAppId": "a/b", "txnVersion": "1"}, "it must have no slash"),
        ({"kafka.retries": "3"}, "say that"),
        ({"kafka.partitioner.class": "x"}, "give a column partition to choose otherwise"),
        ({"kafka.fetch.min.bytes": "3"}, "no such setting acts in this client; take it away .these act: kafka.acks,"),
        ({"includeHeaders": "true"}, "a column headers is always written"),
        ({"checkpointLocation": "x"}, "no option of the sink barnabas; take it away .these act: topic,"),
    ],
)
def test_what_cannot_act_is_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse_batch_options({**SERVERS, **given})


def test_a_stream_has_a_number_of_its_own() -> None:
    with pytest.raises(OptionError, match="option txnVersion='1': a stream is known by its own query id and batch id"):
        parse_stream_options({**SERVERS, "txnVersion": "1", "transactionalIdPrefix": "p"})


def test_topics_are_called_as_kafka_lets_them() -> None:
    assert all(map(is_topic, ["a", "A-b_c.9", "x" * 249, "..."]))
    assert not any(map(is_topic, ["", ".", "..", "a b", "ü", "x" * 250, "a\n"]))
