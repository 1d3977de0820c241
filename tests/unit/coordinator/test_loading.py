"""What a load finds at the end of a log."""

import asyncio

from barnabas.coordinator.batches import batch_of
from barnabas.coordinator.loading import Loading
from barnabas.coordinator.outcome import CoordinatorRecord
from barnabas.protocol.batch import Codec
from tests.support.virtual_time import virtual_time
from tests.unit.coordinator.counting import Values
from tests.unit.coordinator.memory_log import MemoryLog
from tests.unit.coordinator.test_shard import LoopClock


@virtual_time
async def test_a_load_ends_where_compaction_has_left_nothing_up_to_the_end() -> None:
    """KAFKA-9065: it was looked for again and again."""

    class Compacted(MemoryLog):
        def bounds(self) -> tuple[int, int]:
            return self.start, self.end + 5

    log, machine = Compacted(), Values()
    log.put(batch_of([CoordinatorRecord(b"a", b"1")], 5, Codec.NONE, None))
    async with asyncio.timeout(1):
        assert await Loading(log, machine, LoopClock()).run(1_000) == 6
    assert machine.values == {"a": "1"}
    assert log.reads == [(0, 1_000), (1, 1_000)]
