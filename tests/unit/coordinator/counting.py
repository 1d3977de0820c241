"""The smallest machine with everything a shard has to do: named values, waiters for one, timers that count."""

from collections.abc import Callable

from barnabas.coordinator.effect import Effect
from barnabas.coordinator.outcome import CoordinatorRecord, Outcome, ProducerStamp, Replies, Ticket
from barnabas.protocol.error_code import ErrorCode


class Rung(Effect):
    """What the machine wants done; `what` says why."""

    def __init__(self, what: str) -> None:
        self.what = what


class Values:
    """A machine: `put` stores, `get` tells, `wait_for` parks until someone stores that name."""

    def __init__(self) -> None:
        self.values: dict[str, str | None] = {}
        self.pending: dict[int, dict[str, str | None]] = {}
        self.parked: dict[str, list[Ticket]] = {}
        self.refused: list[ErrorCode] = []
        self.rung: list[tuple[str, int]] = []
        self.first: Outcome = Outcome()

    def replay(self, record: CoordinatorRecord, producer: ProducerStamp | None) -> None:
        if record.key.startswith(b"?"):
            raise ValueError(f"key {record.key!r} is of a later version")
        value = None if record.value is None else record.value.decode()
        into = self.values if producer is None else self.pending.setdefault(producer.producer_id, {})
        into[record.key.decode()] = value

    def replay_marker(self, producer_id: int, *, commit: bool) -> None:
        values = self.pending.pop(producer_id, {})
        if commit:
            self.values.update(values)

    def loaded(self, *, coordinator_epoch: int, now_ms: int, wall_ms: int) -> Outcome:
        return self.first

    def on_timer(self, key: object, *, now_ms: int, wall_ms: int) -> Outcome:
        self.rung.append((str(key), now_ms))
        return Outcome()

    def unload(self) -> list[Ticket]:
        return [ticket for tickets in self.parked.values() for ticket in tickets]

    def contents(self) -> str:
        return f"{len(self.values)} values"

    def put(
        self,
        ticket: Ticket,
        name: str,
        value: str,
        *,
        producer: ProducerStamp | None = None,
        heals: bool = True,
        effect: Effect | None = None,
    ) -> Outcome:
        def failed(error: ErrorCode) -> Replies:
            self.refused.append(error)
            return [(ticket, f"failed: {error.name}")]

        woken = self.parked.pop(name, [])
        return Outcome(
            records=[CoordinatorRecord(name.encode(), value.encode())],
            replies=[(ticket, f"{name}={value}"), *((each, value) for each in woken)],
            effects=[] if effect is None else [effect],
            producer=producer,
            if_failed=failed if heals else None,
        )

    def get(self, ticket: Ticket, name: str) -> Outcome:
        return Outcome(replies=[(ticket, self.values.get(name))])

    def wait_for(self, ticket: Ticket, name: str) -> Outcome:
        self.parked.setdefault(name, []).append(ticket)
        return Outcome()


Call = Callable[[Values, Ticket, int, int], Outcome]


def put(name: str, value: str, **how: object) -> Call:
    return lambda machine, ticket, _now, _wall: machine.put(ticket, name, value, **how)  # type: ignore[arg-type]


def get(name: str) -> Call:
    return lambda machine, ticket, _now, _wall: machine.get(ticket, name)


def wait_for(name: str) -> Call:
    return lambda machine, ticket, _now, _wall: machine.wait_for(ticket, name)
