"""Leader epochs read from the batches of a log whose list of them is spoilt, or begins too late."""

import logging
from collections.abc import Sequence

from barnabas.protocol.batch import CURRENT_MAGIC
from barnabas.runtime.disk import Disk
from barnabas.storage.file_names import LOG_SUFFIX, segment_file
from barnabas.storage.leader_epochs import EpochEntry, LeaderEpochs
from barnabas.storage.log_config import MAX_INT64
from barnabas.storage.scan import CorruptSegment, iterate_file_headers

log = logging.getLogger(__name__)


def read_epochs_below(
    disk: Disk, directory: str, segments: Sequence[int], offset: int, known: LeaderEpochs
) -> LeaderEpochs:
    """The `known` epochs, which begin at `offset`, and before them what the batches of these segments tell.

    Only as far as it counts: before a compacted log's first record there is nothing, and before a message of an old
    format nothing is known. Raises OSError.
    """
    found: list[EpochEntry] = []
    for base_offset in reversed(segments):
        if base_offset < offset:
            epochs = LeaderEpochs()
            forgets = read_epochs_of(disk, directory, base_offset, epochs, below=offset)
            found[:0] = epochs.entries
            if forgets:
                break
    epochs = LeaderEpochs()
    for entry in found:
        if entry.epoch > epochs.latest_epoch:
            epochs.assign(entry.epoch, start_offset=entry.start_offset)
    for entry in known.entries:
        epochs.assign(entry.epoch, start_offset=entry.start_offset)
    return epochs


def read_epochs_of(
    disk: Disk, directory: str, base_offset: int, epochs: LeaderEpochs, *, below: int = MAX_INT64
) -> bool:
    """Add what the segment's batches say that begin before `below`; whether one is of an old format. Raises OSError."""
    path = f"{directory}/{segment_file(base_offset, LOG_SUFFIX)}"
    file, forgets = disk.open(path, writable=False), False
    try:
        for _, header in iterate_file_headers(file, 0, file.size()):
            if header.base_offset >= below:
                break
            if header.magic < CURRENT_MAGIC:
                epochs.clear()
                forgets = True
            elif header.leader_epoch > epochs.latest_epoch:
                epochs.assign(header.leader_epoch, start_offset=header.base_offset)
    except CorruptSegment as error:
        log.warning("%s: leader epochs after this place are not known: %s", path, error)
    finally:
        file.close()
    return forgets
