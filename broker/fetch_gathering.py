"""When a follower's fetch should wait a moment for more than there is: large streams cost less in fewer pieces.

A fetch has a price that does not depend on its size, for the leader and for the follower. While much is produced, a
follower asks again before much has arrived, and each of its fetches would bring one batch. So a fetch that could be
answered waits while records keep coming, a few milliseconds at most. What the follower says it has is counted when the
fetch arrives, so no acknowledgement of what was fetched waits for this.

Nothing is gained where producers wait for acknowledgements of all that they have sent: then a session leaves it for
a number of fetches that doubles each time. So a stream of small requests pays it next to never.

Pure: the fetch keeps the time.
"""

from typing import Final

TICK_MS: Final = 2
MAX_TICKS: Final = 3
_ENOUGH_BYTES: Final = 1 << 19
_WORTH_BYTES: Final = 1 << 18
_LEAST_PAUSE: Final = 16
_MOST_PAUSE: Final = 4096


class Gathering:
    """What one follower's session has learnt of it."""

    __slots__ = ("_left", "_pause")

    def __init__(self) -> None:
        self._pause = _LEAST_PAUSE
        self._left = 0

    def begins(self, size_bytes: int) -> bool:
        """Whether a fetch that has `size_bytes` should wait for more; to be asked once for each."""
        if size_bytes >= _ENOUGH_BYTES:
            return False
        if self._left:
            self._left -= 1
            return False
        return True

    def on_end(self, gained_bytes: int) -> None:
        """A wait brought so much more."""
        if gained_bytes >= _WORTH_BYTES:
            self._pause = _LEAST_PAUSE
        else:
            self._left = self._pause
            self._pause = min(2 * self._pause, _MOST_PAUSE)
