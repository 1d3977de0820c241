"""How far a job is, on standard error: one line that is redrawn on a terminal, a line now and then elsewhere.

What a job found out goes to standard output.
"""

import os
import shutil
import sys
from typing import Final, TextIO

from barnabas.runtime.clock import Clock, SystemClock

_EVERY_MS: Final = 10_000
_REDRAW_MS: Final = 100
_CLEAR_LINE: Final = "\r\x1b[2K"


class Progress:
    """Shows texts of one line; on a terminal at most ten a second, elsewhere one in ten seconds and the last one."""

    def __init__(self, stream: TextIO | None = None, clock: Clock | None = None) -> None:
        self._stream = stream or sys.stderr
        self._clock = clock or SystemClock()
        self._is_terminal = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._shown_ms: int | None = None
        self._waiting: str | None = None
        self._is_drawn = False

    def show(self, text: str) -> None:
        """Show where the job stands, unless that was shown a moment ago."""
        now = self._clock.monotonic_ms()
        pause = _REDRAW_MS if self._is_terminal else _EVERY_MS
        self._waiting = text
        if self._shown_ms is None or now - self._shown_ms >= pause:
            self._shown_ms = now
            self._put()

    def end(self) -> None:
        """Show what was last said, and leave the line."""
        self._put()
        if self._is_drawn:
            self._is_drawn = False
            self._write("\n")

    def say(self, text: str) -> None:
        """A line that stays, above the one that is redrawn."""
        self._write(f"{_CLEAR_LINE if self._is_drawn else ''}{text}\n")
        self._is_drawn = False

    def result(self, text: str) -> None:
        """Put what the job found out on standard output, for people and pipes."""
        self.end()
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    def _put(self) -> None:
        text, self._waiting = self._waiting, None
        if text is None:
            return
        if not self._is_terminal:
            self._write(f"{text}\n")
            return
        # A longer one would wrap, and only its last part be redrawn.
        self._write(_CLEAR_LINE + text[: max(1, shutil.get_terminal_size().columns - 1)])
        self._is_drawn = True

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
