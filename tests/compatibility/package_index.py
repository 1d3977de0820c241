"""Debian's package index as real input: the lists that apt has on this machine, a line per message.

Keyed, the key of a line is what stands before its first colon and the value what stands behind it; a line without a
colon has no key. kcat sends no empty line.
"""

import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import lz4.frame

LISTS = Path("/var/lib/apt/lists")
KEY_DELIMITER = ":"
_APT_HELPER = "/usr/lib/apt/apt-helper"

Line = tuple[bytes | None, bytes | None]
"""A message's key and value."""


class NoPackageIndex(Exception):
    """This machine has no list of packages. The message is the reason for a skip."""


def index_files() -> list[Path]:
    """The lists of packages that apt keeps, the largest first."""
    found = sorted(LISTS.glob("*_Packages*"), key=lambda path: -path.stat().st_size)
    if not found:
        raise NoPackageIndex(f"no *_Packages* in {LISTS}: apt-get update has not run here")
    return found


def read_index(path: Path) -> bytes:
    """A list, decompressed."""
    if path.suffix == ".lz4":
        data: bytes = lz4.frame.decompress(path.read_bytes())
        return data
    return subprocess.run([_APT_HELPER, "cat-file", str(path)], capture_output=True, check=True).stdout


def sample_lines(count: int) -> list[bytes]:
    """The first lines of the largest list."""
    return read_index(index_files()[0]).split(b"\n", count)[:count]


def messages_of(lines: Sequence[bytes], *, keyed: bool) -> list[Line]:
    """What kcat makes of lines: key and value of each message, in order."""
    return [_split(line) if keyed else (None, line) for line in lines if line]


def _split(line: bytes) -> Line:
    key, colon, value = line.partition(KEY_DELIMITER.encode())
    return (key, value) if colon else (None, line)


def order_violation(sent: Sequence[Line], received: Mapping[int, Sequence[Line]]) -> str | None:
    """What is wrong with the partitions' content, or None where it is what was sent, in order.

    Lines with a key: each key lies in one partition, and each partition holds exactly the lines of its keys in the
    order in which they were sent. Lines without a key lie anywhere: together they are what was sent, and those that
    occur only once in it are in order within each partition.
    """
    if Counter(sent) != Counter(line for lines in received.values() for line in lines):
        return "what came is not what was sent"
    homes: dict[bytes, int] = {}
    for partition, lines in received.items():
        for key, _ in lines:
            if key is not None and homes.setdefault(key, partition) != partition:
                return f"the key {key!r} is in partitions {homes[key]} and {partition}"
    counts = Counter(sent)
    places = {line: number for number, line in enumerate(sent) if counts[line] == 1}
    for partition, lines in received.items():
        if [line for line in lines if line[0] is not None] != [
            line for line in sent if line[0] is not None and homes[line[0]] == partition
        ]:
            return f"the keyed lines of partition {partition} are not in order"
        numbers = [places[line] for line in lines if line in places]
        if numbers != sorted(numbers):
            return f"the lines of partition {partition} are not in order"
    return None
