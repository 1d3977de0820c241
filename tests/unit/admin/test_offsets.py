"""The grammar of `--offset`."""

from time import tzset

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.admin.offsets import Anchor, Bound, OffsetSpec, OffsetSyntax, parse_offset_spec, parse_time

NOW_MS = 1_800_000_000_000
START, END = Bound(Anchor.START), Bound(Anchor.END)


def at(number: int) -> Bound:
    return Bound(Anchor.ZERO, number)


def time(ms: int) -> Bound:
    return Bound(Anchor.TIME, ms)


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        ("start", START, None),
        ("oldest", START, None),
        ("end", END, None),
        ("newest", END, None),
        (":end", START, END),
        ("5", at(5), None),
        ("+5", Bound(Anchor.START, 5), None),
        ("-5", Bound(Anchor.END, -5), None),
        ("5:9", at(5), at(9)),
        (":9", START, at(9)),
        ("5:", at(5), None),
        ("-9:-5", Bound(Anchor.END, -9), Bound(Anchor.END, -5)),
        ("+1:end", Bound(Anchor.START, 1), END),
        ("@1700000000", time(1_700_000_000_000), None),
        ("@1700000000123", time(1_700_000_000_123), None),
        ("@2026-11-21", time(1_795_219_200_000), None),
        ("@2026-11-21T08:00:00Z", time(1_795_248_000_000), None),
        ("@2026-11-21T08:00:00", time(1_795_248_000_000), None),
        ("@2026-11-21T08:00:00.5+02:00", time(1_795_240_800_500), None),
        ("@2026-11-21T08:00:00Z:2026-11-21T09:00:00Z", time(1_795_248_000_000), time(1_795_251_600_000)),
        ("@2026-11-21T08:00:00+02:00:@2026-11-22", time(1_795_240_800_000), time(1_795_305_600_000)),
        ("@-48h:-24h", time(NOW_MS - 172_800_000), time(NOW_MS - 86_400_000)),
        ("@-1h30m", time(NOW_MS - 5_400_000), None),
        ("@-90s:now", time(NOW_MS - 90_000), time(NOW_MS)),
        ("@-0.5d:end", time(NOW_MS - 43_200_000), END),
        ("@-7d:", time(NOW_MS - 604_800_000), None),
        ("@:-1w", START, time(NOW_MS - 604_800_000)),
        ("@1969-12-31T23:59:59Z", time(0), None),
    ],
)
def test_the_grammar(text: str, since: Bound, until: Bound | None) -> None:
    assert parse_offset_spec(text, now_ms=NOW_MS) == OffsetSpec(since, until)


@pytest.mark.parametrize(
    "text",
    ["", ":", "begin", "--5", "5:9:11", "1.5", "@", "@:", "@yesterday", "@-5", "@-5x", "@-5h3", "@2026-13-01", "+", "-",
     "٣", "9" * 19, "start:begin", "@" + "9" * 30],
)  # fmt: skip
def test_what_is_not_of_the_grammar_is_refused(text: str) -> None:
    with pytest.raises(OffsetSyntax):
        parse_offset_spec(text, now_ms=NOW_MS)


def test_days_are_utc_wherever_the_command_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    tzset()
    try:
        assert parse_time("2026-11-21", now_ms=NOW_MS) == 1_795_219_200_000
    finally:
        monkeypatch.undo()
        tzset()


@given(st.text(alphabet="0123456789:+-@TZstarendhmsd.", max_size=25))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        spec = parse_offset_spec(text, now_ms=NOW_MS)
    except OffsetSyntax:
        return
    for bound in (spec.since, spec.until or START):
        assert 10 <= bound.resolve(start=10, end=20, at_time=None) <= 20


@pytest.mark.parametrize(
    ("bound", "offset"),
    [
        (START, 10),
        (END, 20),
        (at(15), 15),
        (at(3), 10),
        (at(99), 20),
        (Bound(Anchor.START, 4), 14),
        (Bound(Anchor.START, 40), 20),
        (Bound(Anchor.END, -4), 16),
        (Bound(Anchor.END, -40), 10),
    ],
)
def test_bounds_stay_within_a_partition(bound: Bound, offset: int) -> None:
    assert bound.resolve(start=10, end=20) == offset


def test_a_time_after_the_last_record_is_the_end() -> None:
    assert time(5).resolve(start=10, end=20, at_time=12) == 12
    assert time(5).resolve(start=10, end=20, at_time=-1) == 20


def test_times_alone() -> None:
    assert parse_time("@2026-11-21", now_ms=NOW_MS) == parse_time("2026-11-21", now_ms=NOW_MS) == 1_795_219_200_000
    with pytest.raises(OffsetSyntax, match="no time"):
        parse_time("soon", now_ms=NOW_MS)
