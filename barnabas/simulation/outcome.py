"""How an operation of a history ended for its client."""

from enum import StrEnum


class Outcome(StrEnum):
    """`OK`: it happened; `FAIL`: it surely did not and will not; `UNKNOWN`: either."""

    OK = "ok"
    FAIL = "fail"
    UNKNOWN = "info"
