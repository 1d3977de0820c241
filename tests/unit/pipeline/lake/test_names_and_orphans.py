"""Names of files in tables, and which of them may go."""

from barnabas.pipeline.lake.names import QUERY_NAME, batch_file, folder_of, written_by
from barnabas.pipeline.lake.orphans import Listed, find_orphans, queries_of

RUN = "00112233445566ff"
DAY_MS = 86_400_000


def test_a_name_tells_query_and_batch() -> None:
    for query in ("events", "a-b", "x-00000001-y", "events.backfill.2024-05"):
        assert QUERY_NAME.fullmatch(query)
        assert written_by(batch_file(query, 12, run=RUN, attempt=7, number=0)) == (query, 12)
    assert written_by(batch_file("q", 10**12, run=RUN, attempt=7, number=0)) == ("q", 10**12)
    for strange in ("part-00000-1234.parquet", f"merged-{RUN}.parquet", f"q-1-{RUN}-0-0.parquet", "q.parquet"):
        assert written_by(strange) is None


def test_names_of_queries_that_would_be_paths_are_refused() -> None:
    assert not any(QUERY_NAME.fullmatch(each) for each in ("", "a/b", "..", ".hidden", "a b", "ä", "a" * 101, "a\n"))


def test_folders_are_those_of_hive() -> None:
    assert folder_of({"event_date": "2024-05-01", "event_hour": "7"}) == "event_date=2024-05-01/event_hour=7"
    assert folder_of({"event_date": None}) == "event_date=__HIVE_DEFAULT_PARTITION__"
    assert folder_of({}) == ""


def listed(name: str, age_ms: int = 0) -> Listed:
    return Listed(f"event_date=2024-05-01/{name}", 100 * DAY_MS - age_ms)


def orphans(files: list[Listed], referred: set[str], committed: dict[str, int | None]) -> list[str]:
    return find_orphans(files, referred=referred, committed=committed, keep_ms=7 * DAY_MS, now_ms=100 * DAY_MS)


def test_what_a_lost_attempt_left_goes_when_the_batch_was_committed() -> None:
    lost, won = (listed(batch_file("q", 3, run=RUN, attempt=at, number=0)) for at in (0, 1))
    assert queries_of([lost, won]) == {"q"}
    assert orphans([lost, won], {won.path}, {"q": 3}) == [lost.path]
    assert orphans([lost, won], {won.path}, {"q": 2}) == []
    assert orphans([lost, won], {won.path}, {"q": None}) == []


def test_of_other_files_their_age_tells() -> None:
    young, old = listed("part-1.parquet", 6 * DAY_MS), listed("part-2.parquet", 8 * DAY_MS)
    running = listed(batch_file("q", 4, run=RUN, attempt=0, number=0), 8 * DAY_MS)
    assert orphans([young, old, running], set(), {"q": 3}) == [old.path, running.path]
    assert orphans([young, old, running], {old.path, running.path}, {"q": 3}) == []
