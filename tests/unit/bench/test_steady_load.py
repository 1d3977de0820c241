"""What a steady load tells of the answers that it gets."""

import subprocess
import sys
import threading

from tests.unit.bench.chosen_answers import answering
from tests.unit.bench.small_broker import TOPIC, produced


def steady_load(port: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "bench.steady_load", str(port), TOPIC, "200", "100"]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def test_each_answer_is_told_until_standard_input_ends() -> None:
    has_answered = threading.Event()

    def answer(number: int) -> bytes:
        if number > 5:
            has_answered.set()
        return produced(0)

    with answering(answer) as port, steady_load(port) as load:
        assert has_answered.wait(20)
        told, errors = load.communicate()
    assert (load.returncode, errors) == (0, "")
    due_s, waited_ms = zip(*(map(float, line.split()) for line in told.splitlines()), strict=True)
    assert len(due_s) >= 5
    assert list(due_s) == sorted(due_s)
    assert min(waited_ms) > 0


def test_a_broker_that_refuses_a_batch_ends_the_load_as_an_error() -> None:
    with answering(lambda number: produced(0 if number < 3 else 7)) as port, steady_load(port) as load:
        try:
            load.wait(20)
        finally:
            told, errors = load.communicate()
    assert load.returncode == 1
    assert errors.endswith("RuntimeError: the broker answers error 7\n")
    assert len(told.splitlines()) == 2
