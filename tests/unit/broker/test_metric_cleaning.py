"""The cleaner's metrics: Kafka's names with Kafka's units, and a run of each log."""

from prometheus_client.core import Metric

from barnabas.storage.cleaner_report import RUNNING, CleanerRun
from broker.metric_cleaning import cleaner_families
from tests.unit.storage.cleaning_store import CleaningStore
from tests.unit.storage.logs import TP


def shown(store: CleaningStore) -> dict[str, dict[tuple[str, ...], float]]:
    """Family -> labels' values -> value."""
    families: list[Metric] = list(cleaner_families(store.cleaner, store.store.directories, store.clock))
    return {
        family.name: {tuple(sample.labels.values()): sample.value for sample in family.samples} for family in families
    }


async def test_a_cleaning_shows_in_the_metrics() -> None:
    store = CleaningStore()
    await store.open()
    assert set(shown(store)["barnabas_cleaner_runs"].values()) == {0}
    store.put_all([1, 2, 3] * 20)
    assert await store.clean()
    store.clock.advance(1500)
    run, found = store.cleaner.runs[TP], shown(store)
    assert found["barnabas_cleaner_runs"] == {(): 1}
    assert found["barnabas_cleaner_bytes_read"] == {(): run.bytes_read}
    assert found["kafka_log_logcleaner_cleaner_recopy_percent"] == {(): 100 * run.bytes_written / run.bytes_read}
    assert found["kafka_log_logcleaner_max_buffer_utilization_percent"][()] > 0
    assert found["kafka_log_logcleanermanager_max_dirty_percent"] == {(): 100}
    assert found["kafka_log_logcleanermanager_time_since_last_run_ms"] == {(): 1500}
    assert found["barnabas_cleaner_last_run_written_bytes"] == {("topic", "0"): run.bytes_written}
    assert found["kafka_log_logcleanermanager_uncleanable_partitions_count"] == {("/data",): 0}
    store.cleaner.runs[TP] = CleanerRun("topic", 0, RUNNING, 0, done_bytes=1, total_bytes=4)
    found = shown(store)
    assert (found["barnabas_cleaner_progress"], found["barnabas_cleaner_last_run_seconds"]) == (
        {("topic", "0"): 0.25},
        {},
    )


async def test_a_log_that_is_not_cleaned_any_more_is_counted() -> None:
    store = CleaningStore()
    await store.open()
    store.put_all([1, 2, 3] * 20)
    await store.settle()
    file = store.disk.open(store.log.segments[1].path(".log"))
    file.pwrite(b"\xff" * 10, 70)
    assert not await store.clean()
    found = shown(store)
    assert found["kafka_log_logcleanermanager_uncleanable_partitions_count"] == {("/data",): 1}
    assert found["kafka_log_logcleanermanager_uncleanable_bytes"] == {("/data",): store.log.size_bytes}
