"""The job audit as the command finds it; what it does stands in auditing.py, which loads Spark."""

from barnabas.pipeline.audit.config import AuditConfig
from barnabas.pipeline.jobs.job import Run

__all__ = ["AuditConfig", "run"]


def run(run: Run[AuditConfig]) -> None:
    """Audit. Raises JobFailed where it does not balance or cannot be done."""
    from barnabas.pipeline.audit.auditing import audit  # noqa: PLC0415 - loads Spark

    audit(run)
