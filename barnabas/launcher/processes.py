"""Processes that the launcher starts, watches and ends, also from a later run of the command.

A process is known by its pid together with the boot and the tick at which it started, so that a pid that the system
has given to somebody else is never taken for ours. Signals go through a pidfd that is checked after it was opened:
there is no moment at which a recycled pid could be hit. Linux only.
"""

import contextlib
import os
import select
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process as it is written into the state file."""

    pid: int
    start_ticks: int
    boot_id: str


def identify(pid: int) -> ProcessIdentity | None:
    """The process that has `pid` now; None when there is none or it is dead and only waits to be reaped."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name, field 2, may hold blanks and parentheses; the fields after it do not.
    state, *fields = text[text.rindex(")") + 2 :].split()
    if state in "ZX":
        return None
    return ProcessIdentity(pid, int(fields[18]), Path("/proc/sys/kernel/random/boot_id").read_text().strip())


def is_alive(process: ProcessIdentity) -> bool:
    """Whether exactly this process still runs."""
    return identify(process.pid) == process


def send_signal(process: ProcessIdentity, number: signal.Signals) -> bool:
    """Whether the process was there to get it."""
    with _open(process) as descriptor:
        if descriptor is None:
            return False
        try:
            signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            return False
        return True


def wait_for_end(process: ProcessIdentity, timeout_s: float) -> bool:
    """Whether the process ended within that time."""
    with _open(process) as descriptor:
        if descriptor is None:
            return True
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))


def wait_for_any_end(those: Sequence[ProcessIdentity], timeout_s: float) -> bool:
    """Whether one of them ended within that time, or had ended."""
    with contextlib.ExitStack() as opened:
        descriptors = [opened.enter_context(_open(process)) for process in those]
        poll = select.poll()
        for descriptor in descriptors:
            if descriptor is None:
                return True
            poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))


def kill(process: ProcessIdentity) -> None:
    """SIGKILL, and return when it is gone."""
    send_signal(process, signal.SIGKILL)
    assert wait_for_end(process, 30), f"process {process.pid} outlived SIGKILL"


def stop(process: ProcessIdentity, *, grace_s: float) -> bool:
    """Ask the process to end, and kill it when it has not within `grace_s`. Whether it ended by itself."""
    send_signal(process, signal.SIGTERM)
    # A stopped process does not see a SIGTERM before it goes on.
    send_signal(process, signal.SIGCONT)
    if wait_for_end(process, grace_s):
        return True
    kill(process)
    return False


def pause_child(pid: int) -> None:
    """SIGSTOP, and return when all threads of this child stand still, or it has ended: `kill` returns before that."""
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


class LocalProcess:
    """A process started by this one: its identity, and the duty to reap it."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        log_file: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start `command` with no input, its output appended to `log_file`, out of reach of the terminal's Ctrl-C."""
        self.log_file = log_file
        log_file.parent.mkdir(parents=True, exist_ok=True)
        with log_file.open("ab") as output:
            self._log_start = output.tell()
            self._popen = subprocess.Popen(  # noqa: S603 - a list, no shell
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=None if environment is None else dict(environment),
                start_new_session=True,
                close_fds=True,
            )
        identity = identify(self._popen.pid)
        # One that ended at once is kept as a pid that nobody else can have while it is not reaped.
        self.identity = identity or ProcessIdentity(self._popen.pid, -1, "")

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def return_code(self) -> int | None:
        """None while it runs; minus the signal's number when one ended it."""
        return self._popen.poll()

    def wait(self, timeout_s: float) -> bool:
        """Whether it ended within that time."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(timeout_s)
            return True
        return False

    def send_signal(self, number: signal.Signals) -> None:
        self._popen.send_signal(number)

    def pause(self) -> None:
        """SIGSTOP, and return when it stands still."""
        pause_child(self.pid)

    def stop(self, *, grace_s: float) -> bool:
        """Whether it ended by itself."""
        if self.return_code is not None:
            return True
        self._popen.terminate()
        self._popen.send_signal(signal.SIGCONT)
        if self.wait(grace_s):
            return True
        self.kill()
        return False

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self.return_code is None:
            self._popen.kill()
        self._popen.wait()

    def log_tail(self, lines: int = 20) -> str:
        """The last lines that this process, and not an earlier one, has written."""
        with self.log_file.open("rb") as file:
            file.seek(self._log_start)
            text = file.read().decode(errors="replace")
        return "\n".join(text.splitlines()[-lines:])


@contextlib.contextmanager
def _open(process: ProcessIdentity) -> Iterator[int | None]:
    """A pidfd of exactly this process, or None."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        yield None
        return
    try:
        # Checked after the open: from here on the descriptor cannot come to mean another process.
        yield descriptor if identify(process.pid) == process else None
    finally:
        os.close(descriptor)
