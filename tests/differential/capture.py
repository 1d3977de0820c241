"""Ask Kafka 2.7.2 the whole corpus and keep its answers: `python -m tests.differential.capture [GROUP...]`."""

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.differential.answers import store
from tests.differential.catalogue import ALL_GROUPS, BROKE_OFF, GROUPS, SERVER_SETTINGS, THREE_BROKER_GROUPS, play
from tests.differential.cluster_conversation import Cluster
from tests.differential.clusters import three_of_kafka
from tests.differential.conversation import Server
from tests.support.kafka import Kafka


def main(arguments: Sequence[str]) -> None:
    wanted = arguments or ALL_GROUPS
    of_one = [group for group in wanted if group in GROUPS]
    of_three = [group for group in wanted if group in THREE_BROKER_GROUPS]
    if of_one:
        with tempfile.TemporaryDirectory() as directory, Kafka(Path(directory), SERVER_SETTINGS) as kafka:
            _capture(of_one, Server(kafka.host, kafka.port))
    if of_three:
        with tempfile.TemporaryDirectory() as directory, three_of_kafka(Path(directory)) as cluster:
            _capture(of_three, cluster)


def _capture(groups: Sequence[str], asked: Server | Cluster) -> None:
    for group in groups:
        started = time.monotonic()
        answers = play(group, asked).answers
        broken = {name: answer for name, answer in answers.items() if name.endswith(BROKE_OFF)}
        assert not broken, broken
        store(group, answers)
        print(f"{group}: {len(answers)} answers in {time.monotonic() - started:.1f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
