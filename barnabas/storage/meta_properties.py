"""`meta.properties` of a log directory: which broker of which cluster it belongs to.

Java properties text, version 0, with `broker.id` and (since 2.0) `cluster.id`. A directory that belongs to another
broker or cluster must not be opened: its logs would answer for partitions that they never held.
"""

from dataclasses import dataclass

import javaproperties

from barnabas.protocol.ids import BrokerId


class InvalidMetaProperties(Exception):
    """The file cannot be read, or is not of the version that we know."""


@dataclass(slots=True, frozen=True)
class MetaProperties:
    """The owner of a log directory. A file of Kafka before 0.10.1 has no cluster id."""

    broker_id: BrokerId
    cluster_id: str | None

    def encode(self) -> bytes:
        values = {"version": "0", "broker.id": str(self.broker_id)}
        if self.cluster_id is not None:
            values["cluster.id"] = self.cluster_id
        text: str = javaproperties.dumps(values, timestamp=False)
        return text.encode("latin-1")

    @classmethod
    def decode(cls, data: bytes) -> "MetaProperties":
        """Read the file's content. Raises InvalidMetaProperties."""
        try:
            values: dict[str, str] = javaproperties.loads(data)
        except ValueError as error:
            raise InvalidMetaProperties(f"not a properties file: {error}") from None
        if values.get("version") != "0":
            raise InvalidMetaProperties(f"version is {values.get('version')!r}, not '0'")
        try:
            broker_id = int(values["broker.id"])
        except (KeyError, ValueError):
            raise InvalidMetaProperties(f"broker.id is {values.get('broker.id')!r}, not a number") from None
        return cls(BrokerId(broker_id), values.get("cluster.id"))
