"""Clients of a simulated cluster that write with the shipped producer: idempotently, or in transactions.

A transactor writes to several partitions, thinks in between, and commits or, now and then, aborts. It is told apart by
its transactional id, which whoever comes after it takes over: one that was paused meanwhile goes on for a while, is
fenced, and ends.
"""

import asyncio
import contextlib
from typing import Final

from barnabas.client.errors import ClientError, ProducerFenced
from barnabas.client.producer_options import ProducerOptions
from barnabas.protocol.ids import TopicPartition
from barnabas.simulation.keepers import KeptProcess
from barnabas.simulation.load import ClientProcess, Stage
from barnabas.simulation.transacting import Transacting, Writing, pause

_ABORTS: Final = 0.25
_MOST_PARTITIONS: Final = 3
_MOST_RECORDS: Final = 3
_LONG_THOUGHT: Final = 0.08
_THOUGHTS: Final = 6


class TransactorProcess(KeptProcess):
    """Writes transactions until the load is over, it is told to leave, or it is fenced by who came after it."""

    def __init__(
        self,
        stage: Stage,
        name: str,
        partitions: list[TopicPartition],
        *,
        host: str,
        transactional_id: str,
        timeout_ms: int,
    ) -> None:
        super().__init__(stage, name, host=host)
        self._partitions = partitions
        self._timeout_ms = timeout_ms
        self._transacting = Transacting(self, transactional_id, timeout_ms=timeout_ms)

    async def run(self) -> None:
        """See the class."""
        transacting = self._transacting
        while not self.is_over:
            try:
                await pause(self, self.stage.settings.think_s * _THOUGHTS)
                await self._transact()
            except ClientError as error:
                await transacting.abort(str(error))
                if self.is_superseded and (transacting.is_fenced or isinstance(error, ProducerFenced)):
                    return
        await transacting.drop()

    async def _transact(self) -> None:
        chance, transacting = self.chance, self._transacting
        await transacting.begin()
        count = min(chance.randint(1, _MOST_PARTITIONS), len(self._partitions))
        for at in chance.sample(self._partitions, count):
            for _ in range(chance.randint(1, _MOST_RECORDS)):
                await transacting.write_in(at)
            if chance.random() < 0.5:
                await pause(self, self.stage.settings.think_s / 4)
        if chance.random() < _LONG_THOUGHT:
            # Longer than the coordinator waits, perhaps.
            await asyncio.sleep(chance.uniform(0.5, 1.5) * self._timeout_ms / 1000)
        if chance.random() < _ABORTS:
            await transacting.abort("it was to be aborted")
        else:
            await transacting.commit()


class IdempotentProcess(ClientProcess):
    """Writes with the shipped idempotent producer, several batches under way, until the load is over."""

    def __init__(self, stage: Stage, name: str, partitions: list[TopicPartition]) -> None:
        super().__init__(stage, name)
        self._partitions = partitions
        options = ProducerOptions(auto_create_topics=False, delivery_timeout_ms=int(stage.settings.give_up_s * 1000))
        self._writing = Writing(self, options)

    async def run(self) -> None:
        """See the class."""
        chance, settings = self.chance, self.stage.settings
        while not self.stage.is_over:
            await pause(self, settings.think_s * 2)
            at = chance.choice(self._partitions)
            for _ in range(chance.randint(1, settings.max_records)):
                try:
                    await self._writing.write(at)
                except ClientError:
                    await self._writing.drop()
                    break
        with contextlib.suppress(ClientError):  # each record was told on its own
            await (await self._writing.ready()).flush()
        await self._writing.drop()
