"""Where the batches begin that readers will probably ask for next."""

from typing import Final

_MOST: Final = 16


class RememberedPlaces:
    """Of one segment: positions by the offset that is asked for, the latest few."""

    __slots__ = ("_positions",)

    def __init__(self) -> None:
        self._positions: dict[int, int] = {}

    def get(self, offset: int) -> int | None:
        return self._positions.get(offset)

    def remember(self, offset: int, position: int) -> None:
        positions = self._positions
        if len(positions) >= _MOST:
            # Half of them at a time: looking for the oldest with each append would cost more than all else here.
            for oldest in list(positions)[: _MOST // 2]:
                del positions[oldest]
        positions[offset] = position

    def clear(self) -> None:
        self._positions.clear()
