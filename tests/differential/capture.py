"""Ask Kafka 2.7.2 the whole corpus and keep its answers: `python -m tests.differential.capture [GROUP...]`."""

import sys
import tempfile
import time
from pathlib import Path

from tests.differential.answers import store
from tests.differential.catalogue import BROKE_OFF, GROUPS, SERVER_SETTINGS, play
from tests.differential.conversation import Server
from tests.support.kafka import Kafka


def main(arguments: list[str]) -> None:
    groups = arguments or GROUPS
    with tempfile.TemporaryDirectory() as directory, Kafka(Path(directory), SERVER_SETTINGS) as kafka:
        for group in groups:
            started = time.monotonic()
            answers = play(group, Server(kafka.host, kafka.port)).answers
            broken = {name: answer for name, answer in answers.items() if name.endswith(BROKE_OFF)}
            assert not broken, broken
            store(group, answers)
            print(f"{group}: {len(answers)} answers in {time.monotonic() - started:.1f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
