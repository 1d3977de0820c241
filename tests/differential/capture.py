"""Ask Kafka 2.7.2 the whole corpus and keep its answers: `python -m tests.differential.capture [GROUP...]`."""

import sys
import tempfile
import time
from pathlib import Path

from tests.differential.answers import store
from tests.differential.catalogue import GROUPS, SERVER_SETTINGS, play_group
from tests.differential.conversation import Server
from tests.support.kafka import Kafka


def main(arguments: list[str]) -> None:
    groups = arguments or GROUPS
    with tempfile.TemporaryDirectory() as directory, Kafka(Path(directory), SERVER_SETTINGS) as kafka:
        for group in groups:
            started = time.monotonic()
            answers = play_group(group, Server(kafka.host, kafka.port))
            assert not [name for name in answers if name.endswith(": broke off")]
            store(group, answers)
            print(f"{group}: {len(answers)} answers in {time.monotonic() - started:.1f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
