"""What waits for the core during one term: what is to be looked at, answers of brokers, questions, timers.

Every entry only leaves a mark and wakes the driver. What is to be looked at again stands here once, however often it
changed; it comes first, for what the core knows must be as new as what it is asked about. Owned by the event loop.
"""

import asyncio
import itertools
from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import Final

from barnabas.protocol.ids import BrokerId
from controller.actions import Answer, SetTimer, Timer
from controller.commands import Command, CommandResult, Inquiry
from controller.events import Asked, CommandAnswered, Stimulus, TimerFired, UncleanElectionsAllowed
from zk_schema import paths
from zk_schema.port import ChildrenChanged, DataChanged, Disconnected, Expired, Resync, ZooKeeperEvent

MAX_QUESTIONS: Final = 10_000


class About(Enum):
    """What is to be read again."""

    EVERYTHING = 1
    BROKERS = 2
    TOPICS = 3
    TOPIC = 4
    DELETIONS = 5
    REASSIGNMENTS = 6
    PREFERRED_ELECTIONS = 7
    LOG_DIRECTORIES = 8
    ISR_CHANGES = 9
    CONFIG_CHANGES = 10


_CHILDREN: Final = {
    paths.BROKER_IDS: About.BROKERS,
    paths.BROKER_TOPICS: About.TOPICS,
    paths.DELETE_TOPICS: About.DELETIONS,
    paths.LOG_DIR_EVENT_NOTIFICATION: About.LOG_DIRECTORIES,
    paths.ISR_CHANGE_NOTIFICATION: About.ISR_CHANGES,
    paths.CONFIG_CHANGES: About.CONFIG_CHANGES,
}
_DATA: Final = {
    paths.REASSIGN_PARTITIONS: About.REASSIGNMENTS,
    paths.PREFERRED_REPLICA_ELECTION: About.PREFERRED_ELECTIONS,
}


@dataclass(frozen=True, slots=True)
class Mark:
    """Something to be read again; `name` where there are several of its kind."""

    about: About
    name: str = ""


class NotController(Exception):
    """This broker is not in office, or left it before it answered; the text is fit for a client."""

    def __init__(self, broker_id: BrokerId) -> None:
        super().__init__(f"broker {broker_id} is not the controller; Metadata names the one that is")


class Inbox:
    """See the module."""

    def __init__(self, controller_id: BrokerId) -> None:
        self._controller_id = controller_id
        self._marks: dict[Mark, None] = {Mark(About.EVERYTHING): None}
        self._answers: deque[CommandAnswered | UncleanElectionsAllowed] = deque()
        self._asked: deque[Asked] = deque()
        self._open_questions: dict[int, asyncio.Future[object]] = {}
        self._tokens = itertools.count(1)
        self._timers: dict[Timer, asyncio.TimerHandle] = {}
        self._fired: dict[Timer, None] = {}
        self._wake = asyncio.Event()
        self._is_closed = False

    async def take(self) -> Mark | Stimulus:
        """What the driver is to attend to next."""
        while True:
            # A question that nobody waits for any more is put again by who still wants it; obeyed late, it could undo
            # what was decided since.
            while self._asked and self._asked[0].token not in self._open_questions:
                self._asked.popleft()
            if self._marks or self._answers or self._asked or self._fired:
                break
            self._wake.clear()
            await self._wake.wait()
        if self._marks:
            mark = next(iter(self._marks))
            del self._marks[mark]
            return mark
        if self._answers:
            return self._answers.popleft()
        if self._asked:
            return self._asked.popleft()
        timer = next(iter(self._fired))
        del self._fired[timer]
        return TimerFired(timer)

    def put(self, *abouts: About, name: str = "") -> None:
        """Let something be read again."""
        # Whatever is marked while everything is to be read is read then.
        if Mark(About.EVERYTHING) not in self._marks:
            self._marks.update((Mark(about, name), None) for about in abouts)
            self._wake.set()

    def on_event(self, event: ZooKeeperEvent) -> None:
        """Mark what an event of ZooKeeper is about."""
        match event:
            case Resync():
                self._marks = {Mark(About.EVERYTHING): None}
                self._wake.set()
            case ChildrenChanged(path) if path in _CHILDREN:
                self.put(_CHILDREN[path])
            case DataChanged(path) if path in _DATA:
                self.put(_DATA[path])
            case DataChanged(path) if path.startswith(f"{paths.BROKER_IDS}/"):
                self.put(About.BROKERS)
            case DataChanged(path) if path.startswith(f"{paths.BROKER_TOPICS}/"):
                self.put(About.TOPIC, name=path.removeprefix(f"{paths.BROKER_TOPICS}/"))
            case ChildrenChanged() | DataChanged() | Disconnected() | Expired():
                pass

    def on_answer(self, broker: BrokerId, command: Command, result: CommandResult) -> None:
        """A broker answered a command."""
        self._answers.append(CommandAnswered(broker, command.broker_epoch, command, result))
        self._wake.set()

    def on_unclean_allowed(self) -> None:
        """The broker's configuration allows unclean elections now."""
        self._answers.append(UncleanElectionsAllowed())
        self._wake.set()

    async def ask(self, question: Inquiry[object]) -> object:
        """Put a question into the queue; it has its turn after what ZooKeeper and the brokers told.

        Raises:
            NotController: the term ended, or too many questions wait. What was asked may or may not be done.
        """
        if self._is_closed or len(self._open_questions) >= MAX_QUESTIONS:
            raise NotController(self._controller_id)
        token = next(self._tokens)
        answer = self._open_questions[token] = asyncio.get_running_loop().create_future()
        self._asked.append(Asked(token, question))
        self._wake.set()
        try:
            return await answer
        finally:
            self._open_questions.pop(token, None)

    def answer(self, action: Answer) -> None:
        """Answer a question; who asked may have gone."""
        answer = self._open_questions.get(action.token)
        if answer is not None and not answer.done():
            answer.set_result(action.answer)

    def set_timer(self, action: SetTimer) -> None:
        """Let a timer fire once, later; it takes the place of an earlier setting."""

        def fire() -> None:
            self._fired[action.timer] = None
            self._wake.set()

        earlier = self._timers.pop(action.timer, None)
        if earlier is not None:
            earlier.cancel()
        self._timers[action.timer] = asyncio.get_running_loop().call_later(action.delay_ms / 1000, fire)

    def close(self) -> None:
        """The term is over: whoever still asks is told."""
        self._is_closed = True
        for timer in self._timers.values():
            timer.cancel()
        for answer in self._open_questions.values():
            if not answer.done():
                answer.set_exception(NotController(self._controller_id))
        self._open_questions.clear()
