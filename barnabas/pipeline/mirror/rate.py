"""How fast bytes may go: a bucket that fills at a steady rate. Pure."""


class ByteRate:
    """So many bytes a second, None for any; a second's worth may go at once, and what is larger is owed."""

    def __init__(self, bytes_per_second: int | None) -> None:
        self._rate = bytes_per_second
        self._left = float(bytes_per_second or 0)
        self._at_ms: int | None = None

    def delay_ms(self, size_bytes: int, now_ms: int) -> int:
        """Take so many bytes, and say how long to wait before they are sent. `now_ms` never goes back."""
        if self._rate is None:
            return 0
        if self._at_ms is not None:
            self._left = min(float(self._rate), self._left + (now_ms - self._at_ms) * self._rate / 1000)
        self._at_ms = now_ms
        self._left -= size_bytes
        return 0 if self._left >= 0 else round(-self._left * 1000 / self._rate)
