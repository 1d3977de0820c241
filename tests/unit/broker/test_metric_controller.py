"""What a broker shows of the office."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from broker.metric_controller import controller_families
from controller.tally import Tally


@dataclass
class InOffice:
    is_active: bool
    counts: Tally

    def tally(self) -> Tally:
        return self.counts


def shown(controller: InOffice) -> dict[str, float]:
    services: Any = SimpleNamespace(controller=controller)
    return {sample.name: sample.value for family in controller_families(services) for sample in family.samples}


def test_the_controller_shows_each_of_its_counts_under_kafkas_name() -> None:
    prefix = "kafka_controller_kafkacontroller_"
    assert shown(InOffice(True, Tally(*range(1, 11)))) == {
        "barnabas_controller_brokers": 1,
        f"{prefix}activecontrollercount": 1,
        f"{prefix}globaltopiccount": 2,
        f"{prefix}globalpartitioncount": 3,
        f"{prefix}offlinepartitionscount": 4,
        f"{prefix}preferredreplicaimbalancecount": 5,
        "barnabas_controller_moving_partitions": 6,
        f"{prefix}topicstodeletecount": 7,
        f"{prefix}topicsineligibletodeletecount": 8,
        f"{prefix}replicastodeletecount": 9,
        f"{prefix}replicasineligibletodeletecount": 10,
    }


def test_another_broker_shows_nothing_but_zeros() -> None:
    assert set(shown(InOffice(False, Tally())).values()) == {0}
