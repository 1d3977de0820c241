"""What clients that write transactions have in common: their command line, and the log of what they did.

Copiers copy what they read in transactions with their offsets, one in `abort_one_in` is aborted for no reason. They are
members of a group and take part in it with its metadata (KIP-447), or each of them reads one partition outside of any,
where the group is a name under which offsets are kept.

Each line of the log is `kind detail`: `b id` a transaction begins, `c id` its commit was answered well, `a id` its
abort was, `? text` what was in the way. The exit status says how a client ended: 0 it was told to, FENCED another one
has its transactional id, BROKEN it could not go on, STUCK librdkafka did not come back from a call.
"""

import argparse
import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import confluent_kafka

FENCED: Final = 3
BROKEN: Final = 4
STUCK: Final = 5

CALL_SECONDS: Final = 6.0
_PATIENCE_CALLS: Final = 20
_FENCED: Final = frozenset(
    {
        confluent_kafka.KafkaError._FENCED,
        confluent_kafka.KafkaError.PRODUCER_FENCED,
        confluent_kafka.KafkaError.INVALID_PRODUCER_EPOCH,
    }
)


@dataclass(frozen=True, slots=True)
class Job:
    """Where to, as whom, and what is drawn; `partition` is the one that is read outside of a group.

    `most`: records of a transaction.
    """

    bootstrap: str
    transactional_id: str
    group: str
    source: str
    target: str
    partitions: int
    log: Path
    seed: int
    abort_one_in: int = 5
    most: int = 50
    partition: int = -1

    def arguments(self) -> list[str]:
        """The command line that `parse` reads."""
        return [f"--{name.replace('_', '-')}={getattr(self, name)}" for name in self.__slots__]


def parse(arguments: list[str] | None = None) -> Job:
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "transactional-id", "group", "source", "target"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--log", type=Path, required=True)
    for name in ("partitions", "seed", "abort-one-in", "most", "partition"):
        parser.add_argument(f"--{name}", type=int, required=True)
    return Job(**vars(parser.parse_args(arguments)))


class Broken(Exception):
    """A producer that can do nothing more; `status` is what the process ends with."""

    def __init__(self, error: Any) -> None:
        super().__init__(str(error))
        self.status = FENCED if error.code() in _FENCED else BROKEN


class MustAbort(Exception):
    """The transaction can only be aborted."""


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """Ends the process as STUCK where a call takes longer than it was given.

    librdkafka 2.16 waits for ever for the coordinator of a group that has left the cluster, whatever time its
    `send_offsets_to_transaction` was given (its issues 5456 and 5511). Its transaction would be open until its
    coordinator ends it.
    """
    watch = threading.Timer(CALL_SECONDS * 1.5, os._exit, (STUCK,))
    watch.daemon = True
    watch.start()
    try:
        yield
    finally:
        watch.cancel()


def call(action: Callable[..., Any], *arguments: Any) -> Any:
    """What librdkafka's transactional calls want: again while it says so, an abort, or an end."""
    for _ in range(_PATIENCE_CALLS):
        try:
            with watched():
                return action(*arguments, CALL_SECONDS)
        except confluent_kafka.KafkaException as exception:
            error = exception.args[0]
            if error.fatal():
                raise Broken(error) from exception
            if error.txn_requires_abort():
                raise MustAbort(error.str()) from exception
            if not error.retriable():
                raise Broken(error) from exception
    raise AssertionError(f"{action} did not come to an end in {_PATIENCE_CALLS} times {CALL_SECONDS} s")


class ConfluentTransactions:
    """A transactional producer of librdkafka that took its id over."""

    def __init__(self, job: Job) -> None:
        self.producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": job.bootstrap,
                "transactional.id": job.transactional_id,
                "linger.ms": 2,
                "debug": "eos",
                "log_level": 7,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                # A broker that is silent is left before the transaction is 60 s old.
                "socket.timeout.ms": 10_000,
            }
        )
        call(self.producer.init_transactions)

    def end(self, *, commit: bool) -> bool:
        """Whether it was committed; it is aborted otherwise. Raises Broken."""
        if commit:
            try:
                call(self.producer.commit_transaction)
            except MustAbort:
                pass
            else:
                return True
        call(self.producer.abort_transaction)
        return False
