"""Where offsets may be missing between batches: what compaction took away, under today's policy or an earlier one.

The cleaner's checkpoint outlives the policy. Left out: a replica that copied a cleaned log and never cleaned it itself.
"""

from barnabas.storage.directory import LogDirectory
from barnabas.storage.log import Log


def may_have_gaps(directory: LogDirectory, member: Log) -> bool:
    """Whether the log is compacted, or the cleaner of `directory` has seen it."""
    return member.config.compact or member.topic_partition in directory.first_dirty
