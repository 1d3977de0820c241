"""What this machine tells of itself, its disks and the brokers that run on it, through psutil."""

from collections.abc import Iterable
from typing import Final

import psutil

from barnabas.pipeline.operations.figures import Figure, Rates

_LOOPBACK: Final = ("127.", "::1", "localhost")


class HostFigures:
    """The figures of this host. `disks` are paths; each is told by its own name."""

    def __init__(self, disks: Iterable[str]) -> None:
        self.disks = set(disks)
        self._rates = Rates()
        # The first answer says nothing: it is since the last time that it was asked.
        psutil.cpu_percent(None)

    def read(self, now_ms: int) -> list[Figure]:
        """What is so now. `now_ms` is of a clock that never goes back."""
        memory = psutil.virtual_memory()
        figures = [
            Figure("cpu.used_fraction", psutil.cpu_percent(None) / 100),
            Figure("cpu.load_1m", psutil.getloadavg()[0]),
            Figure("memory.used_fraction", memory.percent / 100),
            Figure("memory.available_bytes", float(memory.available)),
            Figure("swap.used_bytes", float(psutil.swap_memory().used)),
        ]
        for path in sorted(self.disks):
            try:
                disk = psutil.disk_usage(path)
            except OSError:
                # It is not mounted any more; who set a threshold hears that there are no figures.
                continue
            figures.append(Figure("disk.used_fraction", disk.percent / 100, {"disk": path}))
            figures.append(Figure("disk.free_bytes", float(disk.free), {"disk": path}))
        counters: dict[str, float] = {}
        if (disks := psutil.disk_io_counters()) is not None:
            counters |= {"disk.read_bytes_per_s": disks.read_bytes, "disk.written_bytes_per_s": disks.write_bytes}
        if (network := psutil.net_io_counters()) is not None:
            counters |= {
                "network.received_bytes_per_s": network.bytes_recv,
                "network.sent_bytes_per_s": network.bytes_sent,
            }
        figures += [Figure(name, rate) for name, rate in self._rates.of(counters, now_ms).items()]
        return figures


class ProcessFigures:
    """The figures of one process, as long as it lives."""

    def __init__(self, pid: int) -> None:
        """Raises psutil.Error where it is gone."""
        self.pid = pid
        self._process = psutil.Process(pid)
        self._process.cpu_percent(None)

    def read(self) -> list[Figure]:
        """None of them where the process is gone, or is another user's."""
        try:
            with self._process.oneshot():
                figures = [
                    # 1 is one core.
                    Figure("process.cpu_cores", self._process.cpu_percent(None) / 100),
                    Figure("process.memory_bytes", float(self._process.memory_info().rss)),
                    Figure("process.threads", float(self._process.num_threads())),
                ]
            figures.append(Figure("process.open_files", float(self._process.num_fds())))
        except psutil.Error:
            return []
        return figures

    @property
    def is_alive(self) -> bool:
        return self._process.is_running() and self._process.status() != psutil.STATUS_ZOMBIE


def own_addresses() -> set[str]:
    """The addresses of this machine."""
    return {each.address.partition("%")[0] for addresses in psutil.net_if_addrs().values() for each in addresses}


def is_own(host: str, addresses: Iterable[str]) -> bool:
    """Whether an address that a broker tells is this machine's, as far as that can be seen."""
    return host.startswith(_LOOPBACK) or host in set(addresses)


def listeners() -> dict[int, int]:
    """The process that listens on each TCP port here, of those that may be seen."""
    try:
        connections = psutil.net_connections("tcp")
    except psutil.AccessDenied:
        return {}
    return {
        each.laddr.port: each.pid
        for each in connections
        if each.status == psutil.CONN_LISTEN and each.laddr and each.pid is not None
    }
