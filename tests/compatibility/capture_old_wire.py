"""Ask Kafka 2.7.2 what tests of old clients hold Barnabas against: `python -m tests.compatibility.capture_old_wire`.

Kept are bytes, as hexadecimal digits: the whole answers to the requests of `old_wire.py`; and a log of transactions
that were committed and aborted, as its segment's file has it, with what Fetch 0 to 3 makes of it at each offset.
"""

import json
import tempfile
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from barnabas.protocol.compiler import decode_whole
from barnabas.protocol.frames import decode_response_header
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages.fetch import FetchResponse
from tests.compatibility import old_wire
from tests.compatibility.brokers import await_leaders
from tests.support.kafka import ONE_BROKER_SETTINGS, Kafka

TRANSACTIONS = "transactions"
OFFSETS = range(12)


def main() -> None:
    settings = {**ONE_BROKER_SETTINGS, "log.retention.ms": "-1", "log.roll.ms": str(1 << 62)}
    with tempfile.TemporaryDirectory() as directory, Kafka(Path(directory), settings) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        for topic in (old_wire.TOPIC, TRANSACTIONS):
            admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
            await_leaders(admin, topic, 1)
        answers = {name: answer.hex() for name, answer in old_wire.play(kafka.bootstrap).items()}
        _keep("old_wire", answers)
        _write_transactions(kafka.bootstrap)
        fetched = {
            f"{version} {offset}": _records(kafka.bootstrap, version, offset).hex()
            for version in range(4)
            for offset in OFFSETS
        }
        (segment,) = (kafka.log_directory / f"{TRANSACTIONS}-0").glob("*.log")
        _keep("transactions", {"segment": segment.read_bytes().hex(), **fetched})


def _write_transactions(bootstrap: str) -> None:
    """Offsets 0 and 1 committed behind marker 2, 3 and 4 aborted by 5, 6 and 7 committed by 8, 9 plain."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "t", "linger.ms": 100})
    producer.init_transactions()
    for number, is_committed in enumerate((True, False, True)):
        producer.begin_transaction()
        for value in (b"a", b"b"):
            producer.produce(TRANSACTIONS, value + b"%d" % number, b"key", 0, timestamp=1_600_000_000_000 + number)
        producer.flush(30)
        if is_committed:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    plain = Producer({"bootstrap.servers": bootstrap})
    plain.produce(TRANSACTIONS, b"plain", partition=0, timestamp=1_600_000_000_009)
    plain.flush(30)


def _records(bootstrap: str, version: int, offset: int) -> bytes:
    request = old_wire.fetch(version, TRANSACTIONS, offset)
    answer = old_wire.exchange(bootstrap, request)
    _, position = decode_response_header(ApiKey.FETCH, version, answer)
    response = decode_whole(FetchResponse, version, answer, position)
    records = response.responses[0].partition_responses[0].record_set
    assert isinstance(records, memoryview)
    return bytes(records)


def _keep(name: str, values: dict[str, str]) -> None:
    path = Path(__file__).parent / "captured" / f"{name}.json"
    path.write_text(json.dumps(values, indent=1) + "\n")


if __name__ == "__main__":
    main()
