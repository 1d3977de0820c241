import random

from barnabas.coordinator.timers import Timers


def due(timers: Timers, now_ms: int) -> list[object]:
    found = []
    while (key := timers.pop_due(now_ms)) is not None:
        found.append(key)
    return found


def test_a_key_is_due_once_and_earlier_ones_come_first() -> None:
    timers = Timers()
    timers.set("b", 20)
    timers.set("a", 10)
    assert due(timers, 9) == []
    assert due(timers, 20) == ["a", "b"]
    assert due(timers, 100) == []


def test_a_key_that_is_set_anew_is_due_at_its_last_time() -> None:
    timers = Timers()
    timers.set("later", 10)
    timers.set("later", 30)
    timers.set("sooner", 30)
    timers.set("sooner", 5)
    assert due(timers, 29) == ["sooner"]
    assert due(timers, 30) == ["later"]
    assert timers.next_look_ms() is None


def test_a_key_that_was_cancelled_is_never_due() -> None:
    timers = Timers()
    timers.set("a", 10)
    timers.set("a", None)
    assert timers.next_look_ms() is None
    timers.set("a", 40)
    assert due(timers, 39) == []
    assert due(timers, 40) == ["a"]


def test_any_order_of_changes_agrees_with_a_table(seed: int) -> None:
    rng = random.Random(seed)
    timers, table, now_ms = Timers(), dict[int, int](), 0
    for _ in range(5000):
        key = rng.randrange(20)
        match rng.randrange(4):
            case 0 | 1:
                table[key] = now_ms + rng.randrange(50)
                timers.set(key, table[key])
            case 2:
                table.pop(key, None)
                timers.set(key, None)
            case _:
                now_ms += rng.randrange(20)
                expected = {each for each, at in table.items() if at <= now_ms}
                assert set(due(timers, now_ms)) == expected
                for each in expected:
                    del table[each]
        look_ms = timers.next_look_ms()
        assert (look_ms is None) == (not table)
        assert look_ms is None or look_ms <= min(table.values())
