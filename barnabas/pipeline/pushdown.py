"""Whether Spark hands the predicates of a batch query over to the reader that is being made.

Spark does so where `spark.sql.python.filterPushdown.enabled` is true, in a worker of its own, and fails a query whose
reader takes predicates elsewhere. So a reader takes them only where that worker runs.
"""

import sys
from typing import Final

_WORKER: Final = "pyspark.sql.worker.data_source_pushdown_filters"


def filters_are_offered() -> bool:
    """Whether this process is the worker that asks a reader which predicates it takes."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _WORKER in sys.modules or getattr(main, "name", None) == _WORKER
