"""Making the log of a partition that is new to its directory."""

from barnabas.protocol.ids import TopicPartition
from barnabas.storage.leader_epochs import LeaderEpochs
from barnabas.storage.log import Log
from barnabas.storage.log_config import LogConfig
from barnabas.storage.log_parts import LogPorts, LogState
from barnabas.storage.producer_state import ProducerState
from barnabas.storage.segment import Segment
from barnabas.storage.segments import Segments
from barnabas.storage.snapshots import Snapshots


def create_log(topic_partition: TopicPartition, directory: str, config: LogConfig, ports: LogPorts) -> Log:
    """Make `directory` and in it an empty log that begins at offset 0. Raises OSError.

    The name of the directory survives a power cut only after the log's first flush, which syncs the parent.
    """
    ports.disk.make_directory(directory)
    first = Segment(ports.files, directory, 0, created_ms=ports.clock.wall_ms())
    first.choose_jitter(config, ports.random)
    first.create_files()
    state = LogState(
        segments=Segments([first]),
        log_start_offset=0,
        log_end_offset=0,
        recovery_point=0,
        leader_epochs=LeaderEpochs(),
        producers=ProducerState(),
        snapshots=Snapshots(ports.disk, directory, []),
    )
    log = Log(topic_partition, directory, config, ports, state)
    log.directory_synced = False
    return log
