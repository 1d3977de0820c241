"""`barnabas.boot` of a log directory: on which start of the machine its broker started last, and whether all was there.

A broker that stopped without its clean-shutdown marker has lost nothing while the machine stayed up: what it wrote is
in the page cache. If the machine went down, the ends of its logs may be gone. That doubt stays, over further starts
and clean stops, until the broker says that it is over (`is_intact`). Kafka leaves the file alone.
"""

from dataclasses import dataclass
from typing import Final

from barnabas.runtime.disk import Disk

BOOT_RECORD: Final = "barnabas.boot"
_INTACT: Final = "intact"
_DOUBTFUL: Final = "doubtful"


@dataclass(frozen=True, slots=True)
class BootRecord:
    """The machine's boot id, empty where it is not known."""

    boot_id: str
    is_intact: bool

    def encode(self) -> bytes:
        return f"{self.boot_id} {_INTACT if self.is_intact else _DOUBTFUL}\n".encode()

    @classmethod
    def decode(cls, data: bytes) -> "BootRecord":
        """What cannot be read says nothing good."""
        boot_id, _, state = data.decode("latin-1").rstrip().partition(" ")
        return cls(boot_id, state == _INTACT)

    def vouches_for(self, boot_id: str, *, was_clean: bool) -> bool:
        """Whether a broker that starts now has all that it had written before."""
        return self.is_intact and (was_clean or (boot_id != "" and boot_id == self.boot_id))


def vouches_for(disk: Disk, directory: str, boot_id: str, *, was_clean: bool) -> bool:
    """Whether a broker that starts now has all that it had written there before. Raises OSError."""
    try:
        record = BootRecord.decode(disk.read_bytes(f"{directory}/{BOOT_RECORD}"))
    except FileNotFoundError:
        return was_clean
    return record.vouches_for(boot_id, was_clean=was_clean)
