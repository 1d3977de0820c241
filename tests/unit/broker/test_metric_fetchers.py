"""What a follower shows of its fetching."""

from broker.metric_fetchers import fetcher_families
from replication.fetcher_ports import FetchFigures


def test_each_figure_is_shown_under_its_name() -> None:
    figures = FetchFigures(fetchers=1, requests=2, received_bytes=3, max_lag=4, stopped_partitions=5)
    shown = {
        sample.name.removesuffix("_total"): sample.value
        for family in fetcher_families(figures)
        for sample in family.samples
    }
    assert shown == {
        "barnabas_replica_fetchers": 1,
        "barnabas_replica_fetch_requests": 2,
        "kafka_server_brokertopicmetrics_replicationbytesin": 3,
        "kafka_server_replicafetchermanager_maxlag": 4,
        "kafka_server_replicafetchermanager_failedpartitionscount": 5,
    }
