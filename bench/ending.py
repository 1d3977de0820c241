"""How a benchmark that somebody ends takes its brokers with it."""

import signal
import sys
from types import FrameType
from typing import NoReturn


def exit_on_sigterm() -> None:
    """Have SIGTERM undo what was begun, and exit with its status, as the end of the program does."""
    signal.signal(signal.SIGTERM, _end)


def _end(number: int, _: FrameType | None) -> NoReturn:
    # Once: another would break off the end of the brokers.
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)
