"""The controller's inbox: what is attended to next."""

import asyncio
from contextlib import suppress

from barnabas.protocol.ids import BrokerId
from controller.events import Asked
from controller.inbox import About, Inbox, Mark
from controller.questions import ListReassignments
from tests.support.virtual_time import virtual_time


async def settled(inbox: Inbox) -> None:
    """What stands in a new inbox is taken."""
    assert await inbox.take() == Mark(About.EVERYTHING)


@virtual_time
async def test_a_question_that_nobody_waits_for_any_more_is_not_attended_to() -> None:
    inbox = Inbox(BrokerId(1))
    await settled(inbox)
    gone = asyncio.ensure_future(inbox.ask(ListReassignments(None)))
    stays = asyncio.ensure_future(inbox.ask(ListReassignments(())))
    await asyncio.sleep(0)
    gone.cancel()
    with suppress(asyncio.CancelledError):
        await gone
    taken = await inbox.take()
    assert isinstance(taken, Asked)
    assert taken.question == ListReassignments(())
    stays.cancel()


@virtual_time
async def test_where_the_only_question_is_given_up_the_next_one_is_waited_for() -> None:
    inbox = Inbox(BrokerId(1))
    await settled(inbox)
    asked = asyncio.ensure_future(inbox.ask(ListReassignments(None)))
    await asyncio.sleep(0)
    asked.cancel()
    with suppress(asyncio.CancelledError):
        await asked
    taking = asyncio.ensure_future(inbox.take())
    await asyncio.sleep(1)
    assert not taking.done()
    inbox.put(About.BROKERS)
    assert await taking == Mark(About.BROKERS)
