"""What holds for every test: the rule on skips, one seed per run, and Hypothesis's settings.

Whatever a test draws at random comes from the run's seed: `BARNABAS_SEED`, else drawn here. The header shows it, and so
does each failure of a test that drew. Workers of pytest-xdist and processes that tests start inherit it.
"""

import gc
import os
import random
import signal
from collections.abc import Generator
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from typing import Final

import hypothesis
import pytest

from tests.support import skips

SEED: Final = "BARNABAS_SEED"
WAY_OF_RECORDS: Final = "BARNABAS_WAY_OF_RECORDS"
"""What the tests are to run on: `compiled` is refused where the modules on the way of records are not."""
IN_CI: Final = os.environ.get("CI", "").lower() in {"1", "true", "yes"}
ALLOWED_SKIPS: Final = pytest.StashKey[dict[str, skips.AllowedSkip]]()

# Two busy cores make any deadline a coin toss, and the run's seed decides what is tried, in CI too.
hypothesis.settings.register_profile("barnabas", deadline=None, print_blob=True, derandomize=False)
hypothesis.settings.load_profile("barnabas")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "seeded: draws from the run's seed (set by itself on users of the seed fixture)")
    config.stash[ALLOWED_SKIPS] = skips.read_allowed_skips(config.rootpath)
    if os.environ.get(WAY_OF_RECORDS) == "compiled":
        records = find_spec("barnabas.protocol.records")
        if records is None or not str(records.origin).endswith(tuple(EXTENSION_SUFFIXES)):
            raise pytest.UsageError(f"{WAY_OF_RECORDS}=compiled, and that is not: {records}")
    seed = os.environ.setdefault(SEED, str(random.SystemRandom().getrandbits(31)))
    if config.getoption("hypothesis_seed", None) is None:
        config.option.hypothesis_seed = seed
    # A shell starts what it puts into the background with SIGINT ignored, and every process below inherits that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header() -> str:
    return f"seed: {SEED}={os.environ[SEED]}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if " at 0x" in item.nodeid:
            raise pytest.UsageError(f"an address in a test's id differs between two processes, give ids: {item.nodeid}")
        if "seed" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.seeded)


def pytest_collection_finish() -> None:
    """Thousands of collected tests stay till the end: a garbage collection, of which simulated clusters ask for one
    each, does not look through them time and again. (Without this a simulated test took up to 30 times as long.)"""
    gc.collect()
    gc.freeze()


@pytest.fixture
def seed() -> int:
    """The run's seed, for `random.Random(seed)`; a failing test shows how to run it again with the same one."""
    return int(os.environ[SEED])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and IN_CI:
        _refuse_skip(report, item.config)
    if report.failed and (item.get_closest_marker("seeded") or item.get_closest_marker("hypothesis")):
        report.sections.append(("seed", f"{SEED}={os.environ[SEED]} .venv/bin/pytest '{item.nodeid}'"))
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if report.skipped and IN_CI:
        _refuse_skip(report, collector.config)
    return report


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport, config: pytest.Config) -> None:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else getattr(report, "wasxfail", "no reason")
    refused = skips.refusal(report.nodeid, reason, config.stash[ALLOWED_SKIPS])
    if refused is not None:
        report.outcome = "failed"
        report.longrepr = refused
        vars(report).pop("wasxfail", None)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    skipped = [report.nodeid for report in terminalreporter.stats.get("skipped", [])]
    terminalreporter.section("skips that are allowed in CI")
    for line in skips.summary(config.stash[ALLOWED_SKIPS], skipped):
        terminalreporter.write_line(line)
    if terminalreporter.stats.get("failed"):
        terminalreporter.write_line(f"seed: {SEED}={os.environ[SEED]}")
