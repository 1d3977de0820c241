"""What a broker writes about its peers is one printable line for each message."""

import logging

import pytest

from broker.main import OneLineFormatter


def shown(message: str) -> str:
    record = logging.LogRecord("broker", logging.INFO, "", 1, "topic %s: not created", (message,), None)
    return OneLineFormatter("%(levelname)s %(message)s").format(record)


@pytest.mark.parametrize(
    ("name", "as_shown"),
    [
        ("orders", "orders"),
        ("a b", "a b"),
        ("größe", "größe"),
        ("x\n[2026-01-01] CRITICAL all is lost", "x\\n[2026-01-01] CRITICAL all is lost"),
        ("\r\x1b[2J\x00", "\\r\\x1b[2J\\x00"),
        ("\u2028\ud800", "\\u2028\\ud800"),
    ],
)
def test_a_name_cannot_look_like_a_line_of_the_log(name: str, as_shown: str) -> None:
    assert shown(name) == f"INFO topic {as_shown}: not created"
