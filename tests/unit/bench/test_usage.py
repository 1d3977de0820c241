"""Who is told to be the limit, and what is counted of whom."""

import functools
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace

import psutil
import pytest

from bench.side_by_side.usage import (
    Account,
    ClientFailed,
    ClientRun,
    Look,
    Machine,
    Usage,
    loop_ms,
    run_clients,
    too_few_ticks,
    usable_cpus,
    watch,
    watch_machine,
    watch_start,
)
from bench.systems import System

STAT = "cpu  300 100 200 5000 50 10 20 70 9 9\ncpu0 1 2 3 4 5 6 7 8 9 10\n"
BUSY_S = 0.3
BURN = f"import time\nwhile time.process_time() < {BUSY_S}: pass\n"


def used(
    brokers: float, client: float, broker_thread: float, client_thread: float, *, busy: float, disk: float = 0.0
) -> Usage:
    """In a second on two cores."""
    return Usage(1.0, brokers, client, broker_thread, client_thread, Machine(busy, disk), 2)


@pytest.mark.parametrize(
    ("usage", "limiter"),
    [
        (used(0.5, 0.95, 0.5, 0.95, busy=1.5), "client"),
        (used(0.8, 1.1, 0.5, 0.6, busy=1.9), "client"),
        (used(0.95, 0.2, 0.95, 0.2, busy=1.2), "broker"),
        (used(1.5, 0.4, 0.5, 0.2, busy=1.9), "machine"),
        # The rest is of the host, the kernel or ZooKeeper.
        (used(0.5, 0.4, 0.5, 0.2, busy=1.9), "machine"),
        (used(0.5, 0.4, 0.5, 0.2, busy=1.0), "waiting"),
        (used(0.5, 0.4, 0.5, 0.2, busy=1.0, disk=0.6), "disk"),
        (used(0.5, 0.4, 0.5, 0.2, busy=1.9, disk=0.6), "machine"),
    ],
)
def test_the_limiter_is_whoever_was_busy(usage: Usage, limiter: str) -> None:
    assert usage.limiter == limiter


def test_brokers_that_fill_what_they_are_pinned_to_are_the_limit_though_none_of_their_threads_is() -> None:
    usage = Usage(1.0, 0.95, 0.3, 0.3, 0.3, Machine(1.3, 0.0), 2)
    assert usage.limiter == "waiting"
    assert replace(usage, broker_cores=1).limiter == "broker"
    assert replace(usage, broker_cores=2).limiter == "waiting"


def test_where_brokers_may_run_is_asked_of_them() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as broker:
        system = System("any", 0, (broker.pid,))
        every = os.sched_getaffinity(broker.pid)
        assert watch(system, lambda: 7)[1].broker_cores == len(every)
        system.pin({max(every)})
        assert watch(system, lambda: 7)[1].broker_cores == 1
        broker.communicate()


def test_what_the_limiter_was_told_from_is_told_in_cores() -> None:
    usage = Usage(2.0, 2.2, 1.0, 1.9, 0.6, Machine(3.5, 0.0), 2)
    assert usage.shares == "brokers 1.10, a thread 0.95; client 0.50, a thread 0.30; machine 1.75"


def test_all_that_a_broker_used_counts_where_the_work_is_to_start_it() -> None:
    cluster = System("this", 0, (os.getpid(),))
    result, usage = watch_start(cluster, lambda: 7)
    # This process has used more before than it can have in so short a time.
    assert result == 7
    assert usage.brokers > usage.seconds * usage.cores
    assert watch(cluster, lambda: 7)[1].brokers < usage.brokers


def test_where_brokers_end_the_machine_alone_is_watched() -> None:
    result, usage = watch_machine(lambda: sum(range(100_000)))
    assert (result, usage.brokers, usage.client) == (4_999_950_000, 0.0, 0.0)
    assert usage.seconds > 0
    assert usage.limiter in {"machine", "disk", "waiting"}


def test_the_machine_is_busy_with_everything_that_is_no_idling() -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    assert Machine.of(STAT) == Machine(700 / ticks, 50 / ticks)
    assert Machine(3.0, 2.0).since(Machine(1.0, 0.5)) == Machine(2.0, 1.5)


def test_what_a_client_does_before_its_own_time_begins_is_no_limit() -> None:
    # Three seconds of a start that is busy, then two of which a tenth is.
    looks = [
        Look(0.0, Machine(10.0, 0.0), {}),
        Look(1.0, Machine(12.0, 0.0), {1: 1.0}),
        Look(3.0, Machine(16.0, 0.0), {1: 3.0}),
        Look(5.0, Machine(16.5, 1.5), {1: 3.1, 2: 0.1}),
    ]
    whole = Usage(5.0, 1.0, 3.2, 0.5, 3.1, Machine(6.5, 1.5), 2)
    over = ClientRun([], whole, looks).over(2.0)
    assert (over.seconds, over.brokers, over.machine) == (2.0, 1.0, Machine(0.5, 1.5))
    assert (over.client, over.busiest_client_thread) == (pytest.approx(0.2), pytest.approx(0.1))
    assert over.limiter == "disk"
    # More than it ran is all of it.
    assert ClientRun([], whole, looks).over(9.0).machine == Machine(6.5, 1.5)


def test_a_client_program_is_looked_at_while_it_runs() -> None:
    run = run_clients(System("this", 0, (os.getpid(),)), [[sys.executable, "-c", BURN + "print(1)"]])
    assert run.outputs == ["1\n"]
    assert run.usage.client >= BUSY_S / 2
    assert run.usage.machine.busy >= run.usage.client - 0.1
    assert len(run.looks) > 3


def test_cpu_of_threads_and_children_that_end_counts() -> None:
    """The broker is this process here, and so is the client."""

    def thread() -> None:
        ends_s = time.thread_time() + BUSY_S
        while time.thread_time() < ends_s:
            pass

    def work() -> None:
        running = threading.Thread(target=thread)
        running.start()
        running.join()
        subprocess.run([sys.executable, "-c", BURN], check=True)

    _, usage = watch(System("this", 0, (os.getpid(),)), work)
    assert usage.brokers >= 2 * BUSY_S - 0.1


def test_what_the_kernel_does_for_brokers_is_told_apart_also_of_children_that_end() -> None:
    """Of what the kernel fills that is most, of a loop the least."""
    system, parts = System("this", 0, (os.getpid(),)), []
    for each in ("os.urandom(1 << 20)", "sum(range(100_000))"):
        program = f"import os, time\nwhile time.process_time() < {BUSY_S}: {each}\n"
        _, usage = watch(system, functools.partial(subprocess.run, [sys.executable, "-c", program], check=True))
        parts.append(usage.kernel / usage.brokers)
    assert parts[1] < 0.5 < parts[0] <= 1.0


def test_a_child_that_lives_counts_once() -> None:
    system = System("this", 0, (os.getpid(),))
    before = system.cpu_seconds()
    command = [sys.executable, "-c", BURN + "print(flush=True)\ninput()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        alive = system.cpu_seconds() - before
        child.communicate(b"\n")
    ended = system.cpu_seconds() - before
    assert alive >= BUSY_S - 0.05
    assert ended == pytest.approx(alive, abs=0.1)


def test_a_client_that_fails_ends_the_others_at_once() -> None:
    waits = [sys.executable, "-c", "import time; time.sleep(600)"]
    fails = [sys.executable, "-c", "raise SystemExit('no broker')"]
    with pytest.raises(ClientFailed, match=r"SystemExit.*ended with 1:\nno broker"):
        run_clients(System("this", 0, (os.getpid(),)), [waits, fails, waits], timeout_s=30)
    left = [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]
    assert not [child for child in left if child.cmdline() == waits]


def test_clients_run_on_the_cpus_that_they_are_given() -> None:
    cpu = max(os.sched_getaffinity(0))
    # It waits until it is there.
    script = f"import os\nwhile os.sched_getaffinity(0) != {{{cpu}}}: pass\n"
    run_clients(System("this", 0, (os.getpid(),)), [[sys.executable, "-c", script]], cpus=[cpu], timeout_s=30)


def test_cpu_of_fewer_than_fifty_ticks_of_the_clock_is_too_little_to_judge() -> None:
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    assert too_few_ticks(49 * tick_s) == "49 clock ticks of CPU, less than 50"
    assert too_few_ticks(50 * tick_s) == ""


def test_what_neither_brokers_nor_clients_used_was_used_elsewhere() -> None:
    before = Account(10.0, 100.0, {1: (0, 5.0), 2: (1, 20.0)})
    after = Account(14.0, 107.0, {1: (0, 6.0), 2: (1, 22.0), 3: (1, 1.0)})
    assert after.elsewhere_since(before) == pytest.approx(3 / 4)
    # The kernel's clocks do not tick together.
    assert Account(14.0, 103.0, after.ours).elsewhere_since(before) == 0.0


def test_who_has_ended_is_counted_by_whom_it_had_or_not_at_all() -> None:
    before = Account(0.0, 0.0, {1: (0, 0.0), 2: (1, 20.0), 3: (2, 4.0)})
    # The broker was killed, waited for and so counted, and its worker left behind.
    killed = Account(1.0, 2.0, {1: (0, 21.0)})
    assert killed.elsewhere_since(before) == pytest.approx(1.0)


def test_each_processor_has_its_turn_with_the_loop_and_the_thread_may_go_anywhere_again() -> None:
    cpus, ran_on = usable_cpus(), []

    def clock() -> float:
        ran_on.append(usable_cpus())
        return float(sum(range(len(ran_on) + 1)))

    taken_ms = loop_ms(clock)
    assert ran_on == [{cpu} for cpu in cpus for _ in range(2)]
    # The second look is 2 s behind the first, the fourth 4 s behind the third, and so on.
    assert taken_ms == pytest.approx(1000 * (len(cpus) + 1))
    assert usable_cpus() == cpus


def test_what_this_process_starts_is_not_elsewhere() -> None:
    before = Account.now()
    subprocess.run([sys.executable, "-c", BURN], check=True)
    after = Account.now()
    used = sum(cpu for _, cpu in after.ours.values()) - sum(cpu for _, cpu in before.ours.values())
    assert used >= BUSY_S - 0.05


def test_a_cluster_that_waits_for_its_turn_is_elsewhere() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as rival:
        assert rival.pid in Account.now().ours
        assert rival.pid not in Account.now([rival.pid]).ours
    # Who has ended meanwhile is nowhere.
    assert os.getpid() in Account.now([rival.pid]).ours
