"""What of a trace counts as copied."""

import os

import pytest

from bench.side_by_side.clients import ProgramMissing
from bench.side_by_side.copies import copied_bytes, returned

TRACE = """\
10 recvfrom(5, ""..., 4096, 0, NULL, NULL) = 81
11 read(7,  <unfinished ...>
10 recvfrom(5, 0x7f, 4096, 0, NULL, NULL) = -1 EAGAIN (Resource temporarily unavailable)
10 sendmsg(5, {msg_name=NULL, msg_iov=[{iov_base=""..., iov_len=71}], msg_iovlen=1}, MSG_NOSIGNAL) = 71
11 <... read resumed>""..., 8)          = 8
11 read(7, "", 8)                       = 0
11 write(8, ""..., 40 <unfinished ...>
11 <... write resumed>)                 = ? ERESTARTSYS (To be restarted if SA_RESTART is set)
12 +++ exited with 0 +++
"""


def test_what_calls_returned_counts_and_what_failed_does_not() -> None:
    assert returned(TRACE.splitlines(keepends=True)) == 81 + 71 + 8


def test_without_strace_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ProgramMissing, match="no strace"):
        copied_bytes([os.getpid()], lambda: None)
