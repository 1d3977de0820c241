"""The data plane of the small model: what leaders and followers do and say to each other, by the shipped rules.

See `replica_model` for what the model is. Here is the state of a replica, and every action that needs no controller.
"""

import copy
from typing import Any, Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import NO_LEADER, BrokerEpoch, BrokerId, LeaderEpoch
from barnabas.storage.leader_epochs import LeaderEpochs
from controller.state import Leadership
from replication import follower, leader
from replication.follower import FollowedPartition, Phase
from replication.isr import IsrProposal
from replication.leader import LeaderState

MAX_LAG_MS: Final = 10
NO_EPOCH: Final = BrokerEpoch(-1)
_SERIAL_BITS: Final = 20
_MOST_MESSAGES: Final = 8

ASK, TOLD, FETCH, DATA, ALTER, ALTERED = range(6)
Message = tuple[Any, ...]


class Replica:
    """One broker and its replica."""

    __slots__ = (
        "broker_epoch",
        "checkpointed_high_watermark",
        "commands",
        "epochs",
        "first_request",
        "followed",
        "had",
        "has_lost",
        "high_watermark",
        "id",
        "incarnation",
        "is_alive",
        "is_intact",
        "leader_epoch",
        "leader_id",
        "leadership",
        "log",
        "requests",
        "seen_brokers",
        "synced",
    )

    def __init__(self, broker_id: BrokerId) -> None:
        self.id = broker_id
        self.log: list[int] = []
        """Records: a number each, with the leader epoch above the lowest bits."""
        self.synced = 0
        self.epochs = LeaderEpochs()
        self.high_watermark = 0
        self.checkpointed_high_watermark = 0
        self.is_alive = True
        self.incarnation = 0
        self.broker_epoch = NO_EPOCH
        self.is_intact = True
        """Whether the end of the log is not in doubt (`broker.boot_state`)."""
        self.has_lost = False
        """Whether committed records may be gone, and nobody has seen to it yet."""
        self.had: list[list[int]] = []
        """The log before each power cut: a leader may count on what it was told then."""
        self.leader_id = NO_LEADER
        self.leader_epoch = LeaderEpoch(-1)
        self.leadership: LeaderState | None = None
        self.followed: FollowedPartition | None = None
        self.requests = self.first_request = 0
        """How many it sent as a follower; an answer counts if it is to the last, as on one connection."""
        self.commands: tuple[tuple[BrokerEpoch, Leadership, int], ...] = ()
        self.seen_brokers: dict[BrokerId, BrokerEpoch] = {}

    def copy(self) -> "Replica":
        """Another replica in the same state."""
        other = copy.copy(self)
        other.log, other.had = list(self.log), list(self.had)
        other.epochs = LeaderEpochs(self.epochs.entries)
        other.followed = copy.copy(self.followed)
        if self.leadership is not None:
            other.leadership = leadership = copy.copy(self.leadership)
            object.__setattr__(leadership, "isr", copy.copy(self.leadership.isr))
            remotes = {broker: copy.copy(remote) for broker, remote in self.leadership.remotes.items()}
            object.__setattr__(leadership, "remotes", remotes)
        return other


class DataPlane:
    """See the module. `is_dirty`: something changed that the invariants speak of."""

    __slots__ = ("is_dirty", "min_in_sync", "most_records", "now_ms", "replicas", "serial", "wire")

    def __init__(self, replicas: list[Replica], *, min_in_sync: int, most_records: int) -> None:
        self.replicas = replicas
        self.min_in_sync = min_in_sync
        self.most_records = most_records
        self.now_ms = 0
        self.serial = 0
        self.wire: list[Message] = []
        self.is_dirty = False

    # Leader.

    def append(self, a: int, _b: int) -> None:
        """A client's record reaches whoever believes to lead."""
        replica = self.replicas[a]
        leadership = replica.leadership
        if leadership is None or self.serial >= self.most_records:
            return
        end = len(replica.log)
        replica.epochs.assign(replica.leader_epoch, start_offset=end)
        replica.log.append(replica.leader_epoch << _SERIAL_BITS | self.serial)
        self.serial += 1
        leadership.on_append(end_offset_before=end, now_ms=self.now_ms)
        self._advance(replica, leadership)

    def _advance(self, replica: Replica, leadership: LeaderState) -> None:
        decided = leadership.decide_high_watermark(
            len(replica.log),
            high_watermark=replica.high_watermark,
            now_ms=self.now_ms,
            max_lag_ms=MAX_LAG_MS,
            min_in_sync=self.min_in_sync,
        )
        if decided != replica.high_watermark:
            replica.high_watermark = decided
            self.is_dirty = True

    def check_lag(self, a: int, _b: int) -> None:
        """A leader looks for followers that lag, and asks again for what nobody has answered."""
        replica = self.replicas[a]
        leadership = replica.leadership
        if leadership is None:
            return
        if leadership.isr.pending is not None:
            self._propose(replica, leadership.isr.pending)
            return
        proposal = leadership.decide_shrink(
            leader_end_offset=len(replica.log), now_ms=self.now_ms, max_lag_ms=MAX_LAG_MS
        )
        if proposal is not None:
            self._propose(replica, proposal)
        self._advance(replica, leadership)

    def _propose(self, replica: Replica, proposal: IsrProposal) -> None:
        self._put((ALTER, replica.id, replica.incarnation, replica.broker_epoch, proposal))

    def _on_fetch(self, message: Message) -> Message | None:
        _, to, sender, request, leader_epoch, offset = message
        replica = self.replicas[to]
        leadership = replica.leadership
        if leadership is None or leader.fence(leader_epoch, own_epoch=replica.leader_epoch) is not ErrorCode.NONE:
            return None
        end = len(replica.log)
        if offset > end:
            return None
        answer = (DATA, sender, request, leader_epoch, offset, tuple(replica.log[offset:]), replica.high_watermark)
        counted = leadership.on_follower_fetch(
            sender,
            leader_epoch=leader_epoch,
            fetch_offset=offset,
            log_start_offset=0,
            leader_end_offset=end,
            now_ms=self.now_ms,
        )
        if counted:
            if sender not in leadership.isr.committed:
                proposal = leadership.decide_expand(
                    sender, high_watermark=replica.high_watermark, broker_epoch=replica.seen_brokers.get(sender)
                )
                if proposal is not None:
                    self._propose(replica, proposal)
            self._advance(replica, leadership)
        return answer

    def _on_ask(self, message: Message) -> Message | None:
        _, to, sender, request, leader_epoch, epoch = message
        replica = self.replicas[to]
        if replica.leadership is None:
            return None
        if leader.fence(leader_epoch, own_epoch=replica.leader_epoch) is not ErrorCode.NONE:
            return None
        end = replica.epochs.end_offset_for(epoch, log_end_offset=len(replica.log))
        return (TOLD, sender, request, leader_epoch, end)

    # Follower.

    def send(self, a: int, _b: int) -> None:
        """A follower's next request leaves; its answer may take any time."""
        request = self._request(self.replicas[a])
        if request is not None:
            self._put(request)

    def exchange(self, a: int, _b: int) -> None:
        """A follower's next request and its answer, at once."""
        request = self._request(self.replicas[a])
        if request is not None:
            self._take(self._serve(request))

    def _request(self, replica: Replica) -> Message | None:
        followed = replica.followed
        if followed is None or not replica.is_alive:
            return None
        replica.requests += 1
        head = (replica.leader_id, replica.id, replica.requests, followed.leader_epoch)
        if followed.phase is Phase.FETCHING:
            return (FETCH, *head, len(replica.log))
        epoch = follower.epoch_to_ask(replica.epochs)
        if epoch is None:
            self._truncate(replica, replica.high_watermark)
            followed.phase = Phase.FETCHING
            return None
        return (ASK, *head, epoch)

    def _is_current(self, message: Message, phase: Phase) -> FollowedPartition | None:
        replica = self.replicas[message[1]]
        followed = replica.followed
        if followed is None or replica.requests != message[2] or not replica.is_alive:
            return None
        return followed if followed.leader_epoch == message[3] and followed.phase is phase else None

    def _on_told(self, message: Message) -> None:
        followed = self._is_current(message, Phase.TRUNCATING)
        if followed is None:
            return
        replica = self.replicas[message[1]]
        decided = follower.decide_truncation(
            replica.epochs,
            log_end_offset=len(replica.log),
            high_watermark=replica.high_watermark,
            answer=message[4],
        )
        self._truncate(replica, decided.offset)
        if isinstance(decided, follower.TruncateTo):
            followed.phase = Phase.FETCHING

    def _truncate(self, replica: Replica, offset: int) -> None:
        replica.epochs.truncate_from_end(offset)
        if offset < len(replica.log):
            del replica.log[offset:]
            replica.synced = min(replica.synced, offset)
            replica.high_watermark = min(replica.high_watermark, offset)
            self.is_dirty = True

    def _on_data(self, message: Message) -> None:
        if self._is_current(message, Phase.FETCHING) is None:
            return
        _, to, _, _, offset, records, high_watermark = message
        replica = self.replicas[to]
        if offset != len(replica.log):
            return
        for record in records:
            epoch = record >> _SERIAL_BITS
            if epoch > replica.epochs.latest_epoch:
                replica.epochs.assign(epoch, start_offset=len(replica.log))
            replica.log.append(record)
        replica.high_watermark = max(replica.high_watermark, min(high_watermark, len(replica.log)))

    # The wire.

    def _put(self, message: Message) -> None:
        self.wire.append(message)
        if len(self.wire) > _MOST_MESSAGES:
            del self.wire[0]

    def _serve(self, request: Message) -> Message | None:
        """The leader's answer. What a process sent that has ended is not read any more; a dead one reads nothing."""
        if self.replicas[request[2]].first_request > request[3] or not self.replicas[request[1]].is_alive:
            return None
        return self._on_fetch(request) if request[0] == FETCH else self._on_ask(request)

    def _take(self, answer: Message | None) -> None:
        if answer is not None:
            if answer[0] == DATA:
                self._on_data(answer)
            else:
                self._on_told(answer)
