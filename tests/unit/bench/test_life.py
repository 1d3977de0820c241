"""What a row of a broker's life looks at."""

import os

from bench.side_by_side.rows.life import GreatestMemory
from bench.systems import System


def test_memory_that_was_given_back_counts() -> None:
    with GreatestMemory(System("this", 0, (os.getpid(),))) as memory:
        held = bytearray(os.urandom(1) * 200_000_000)
        while memory.pss_bytes < len(held):
            assert held[0] == held[-1], "it is in use"
        del held
    assert memory.pss_bytes > 200_000_000
