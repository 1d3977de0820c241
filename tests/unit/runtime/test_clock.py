"""The machine's clock tells who waited from who only lost time."""

import threading

from barnabas.runtime.clock import SystemClock


def test_a_thread_that_waits_sleeps_and_one_that_works_does_not() -> None:
    clock = SystemClock()
    before, _ = clock.thread_use()
    for _ in range(3):
        threading.Event().wait(0.001)
    slept, cpu_us = clock.thread_use()
    assert slept >= before + 3
    # Another thread of this process may have taken the interpreter from one of them.
    assert not all(times_slept_working(clock) for _ in range(5))
    assert clock.thread_use()[1] > cpu_us


def times_slept_working(clock: SystemClock) -> int:
    """For longer than others let a thread keep a core that they want."""
    (before, _), ends_us = clock.thread_use(), clock.monotonic_us() + 20_000
    while clock.monotonic_us() < ends_us:
        pass
    return clock.thread_use()[0] - before
