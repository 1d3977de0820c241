"""The entry of a worker that cleans a log: a generator that does a piece of work between any two values that it yields.

Loading numpy takes 25 MB and 0.1 s. Only who cleans pays for it: a broker that names `clean` to its worker does not.
"""

from collections.abc import Generator

from barnabas.runtime.clock import Clock
from barnabas.runtime.disk import Disk
from barnabas.runtime.offload import Pause
from barnabas.storage.cleaning.clean_job import CleanedSegment, CleanJob, CleanProgress, CleanResult


def clean(
    disk: Disk, clock: Clock, job: CleanJob
) -> Generator[CleanProgress | CleanedSegment | Pause, None, CleanResult]:
    """Clean a log: read its closed segments, write what stays of them into `.cleaned` files, rename nothing.

    A group of segments is yielded as soon as its files are complete; the sources of a group that was yielded are not
    looked at again. Raises CorruptSource or OSError, with the files of the group under way removed.
    """
    from barnabas.storage.cleaning.cleaning import Cleaning  # noqa: PLC0415 - see the module

    return (yield from Cleaning(disk, clock, job).steps())
