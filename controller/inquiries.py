"""Which procedure answers which question to the controller.  [P]"""

from controller.actions import Answer
from controller.commands import AlterPartition, ControlledShutdown
from controller.events import Asked
from controller.features import on_update
from controller.isr_changes import on_alter_partition
from controller.leader_requests import on_elect
from controller.office import Office, Procedure
from controller.questions import AlterReassignments, ElectLeaders, ListReassignments, UpdateFeatures
from controller.replica_moves import listed, on_alter
from controller.shutdown import on_controlled_shutdown


def on_asked(office: Office, asked: Asked) -> Procedure[None]:
    """The procedure; it yields one `Answer` with the question's token."""
    match asked.question:
        case AlterPartition() as request:
            return on_alter_partition(office, asked.token, request)
        case ControlledShutdown() as request:
            return on_controlled_shutdown(office, asked.token, request)
        case AlterReassignments() as request:
            return _answer(asked, on_alter(office, request.targets))
        case ListReassignments() as request:
            return _list(office, asked, request)
        case ElectLeaders() as request:
            return _answer(asked, on_elect(office, request.kind, request.partitions))
        case UpdateFeatures() as request:
            return _answer(asked, on_update(office, request))
        case question:
            raise AssertionError(f"nobody answers {type(question).__name__}")


def _answer(asked: Asked, procedure: Procedure[object]) -> Procedure[None]:
    answer = yield from procedure
    yield [Answer(asked.token, answer)]


def _list(office: Office, asked: Asked, request: ListReassignments) -> Procedure[None]:
    yield [Answer(asked.token, listed(office, request.partitions))]
