"""Three brokers of Kafka 2.7.2, asked again, give the answers that are kept, whichever of them is the controller."""

import pytest

from tests.differential.answers import load
from tests.differential.catalogue import THREE_BROKER_GROUPS, play
from tests.differential.cluster_conversation import Cluster
from tests.differential.differences import differences, report

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("kafka_cluster")]


@pytest.mark.parametrize("group", THREE_BROKER_GROUPS)
def test_kafka_answers_as_it_did_when_its_answers_were_kept(group: str, kafka_cluster: Cluster) -> None:
    found = list(differences(group, load(group), play(group, kafka_cluster).answers))
    if found:
        pytest.fail(report(found), pytrace=False)
