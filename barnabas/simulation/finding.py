"""What a check of a history found wrong beside the records of single partitions."""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Finding:
    """`where` names the transaction, group or partition that it is about."""

    kind: StrEnum
    where: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.where}: {self.detail}"
