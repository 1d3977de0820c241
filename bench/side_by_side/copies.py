"""Bytes that processes copy between kernel and user space, as strace counts what their system calls return.

Counts reads from and writes to files, pipes and sockets. What goes by sendfile or splice is not copied, and what is
mapped into memory is no call. A process that is traced is slow: nothing else is measured meanwhile.
"""

import contextlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from bench.side_by_side.clients import ProgramMissing

_CALLS: Final = (
    *("read", "readv", "pread64", "preadv", "preadv2", "recvfrom", "recvmsg"),
    *("write", "writev", "pwrite64", "pwritev", "pwritev2", "sendto", "sendmsg"),
)
_RETURNED: Final = re.compile(r"\) += (\d+)$")
_ATTACH_S: Final = 30.0
_POLL_S: Final = 0.02


def copied_bytes(pids: Sequence[int], work: Callable[[], object]) -> int:
    """How many bytes all threads of the processes copy while something is done.

    Raises:
        ProgramMissing: there is no strace, or it may not look.
    """
    strace = shutil.which("strace")
    if strace is None:
        raise ProgramMissing("no strace on PATH (Debian: apt install strace)")
    with tempfile.TemporaryDirectory() as directory:
        calls, errors = Path(directory) / "calls", Path(directory) / "errors"
        command = [strace, "-f", "-qq", "-s", "0", "-e", f"trace={','.join(_CALLS)}", "-e", "signal=none"]
        command += ["-o", str(calls), *(text for pid in pids for text in ("-p", str(pid)))]
        with errors.open("w") as file, subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=file) as tracer:
            try:
                _wait_until_traced(tracer, pids, errors)
                work()
            finally:
                # It lets them go on.
                tracer.send_signal(signal.SIGINT)
                tracer.wait()
        with calls.open() as lines:
            return returned(lines)


def returned(lines: Iterable[str]) -> int:
    """The sum of what calls returned, those that failed left out."""
    return sum(int(found[1]) for line in lines if (found := _RETURNED.search(line)))


def _wait_until_traced(tracer: subprocess.Popen[bytes], pids: Sequence[int], errors: Path) -> None:
    ends_s = time.monotonic() + _ATTACH_S
    while not all(_is_traced(pid) for pid in pids):
        if tracer.poll() is not None or time.monotonic() > ends_s:
            raise ProgramMissing(f"strace does not attach: {errors.read_text().strip()}")
        time.sleep(_POLL_S)


def _is_traced(pid: int) -> bool:
    """Whether each of its threads is."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        # One may end meanwhile.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if "\nTracerPid:\t0\n" in (thread / "status").read_text():
                return False
    return True
