"""The hosts of a world: each a network namespace behind one bridge, or, without namespaces, a loopback address.

The bridge has an address too, so the program that makes the network reaches every host. Traffic is cut by iptables
rules in the host that receives it; their counters tell whether a rule met any traffic.
"""

import ipaddress
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from barnabas.launcher.sockets import free_port

_NAMESPACES = "/run/netns"
_BRIDGE = "br0"
_OWN_ADDRESS = "10.77.0.254"
_FIRST_ADDRESS = ipaddress.ip_address("10.77.0.11")
_FIRST_LOOPBACK = ipaddress.ip_address("127.77.0.11")


@dataclass(frozen=True, slots=True)
class Host:
    """A place with an address. `wrapper` stands in front of a program that runs there."""

    name: str
    address: str
    wrapper: tuple[str, ...]

    def port(self, preferred: int) -> int:
        """That port where the host is alone with its ports, else any free one."""
        return preferred if self.wrapper else free_port(self.address)


@dataclass(frozen=True, slots=True)
class Cut:
    """What `target` does not receive any more: all of `source`, or of its TCP only what is for one of these ports."""

    source: Host
    target: Host
    ports: tuple[int, ...] = ()


def both_ways(one: Host, other: Host) -> list[Cut]:
    """Neither hears the other."""
    return [Cut(one, other), Cut(other, one)]


class Network:
    """Hosts by name. Without namespaces (`isolated=False`) nothing can be cut."""

    def __init__(self, names: Sequence[str], *, isolated: bool) -> None:
        self.isolated = isolated
        self.hosts = {name: self._host(name, number) for number, name in enumerate(names)}

    def build(self) -> None:
        """Make the namespaces; to be called once, in a world of its own."""
        if not self.isolated:
            return
        # What `ip netns` mounts and writes stays below this.
        _run("mount", "-t", "tmpfs", "none", "/run")
        os.mkdir(_NAMESPACES)
        _run("ip", "link", "set", "lo", "up")
        _run("ip", "link", "add", _BRIDGE, "type", "bridge")
        _run("ip", "addr", "add", f"{_OWN_ADDRESS}/24", "dev", _BRIDGE)
        _run("ip", "link", "set", _BRIDGE, "up")
        for host in self.hosts.values():
            name, cable = host.name, f"v-{host.name}"
            _run("ip", "netns", "add", name)
            _run("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", name)
            _run("ip", "link", "set", cable, "master", _BRIDGE, "up")
            _run("ip", "-n", name, "addr", "add", f"{host.address}/24", "dev", "eth0")
            _run("ip", "-n", name, "link", "set", "eth0", "up")
            _run("ip", "-n", name, "link", "set", "lo", "up")

    def cut(self, cuts: Sequence[Cut]) -> None:
        """From now on nothing of this arrives."""
        self._change("-A", cuts)

    def heal(self, cuts: Sequence[Cut]) -> int:
        """Let it arrive again; how many packets had been dropped."""
        dropped = self.dropped(cuts)
        self._change("-D", cuts)
        return dropped

    def dropped(self, cuts: Sequence[Cut]) -> int:
        """How many packets these cuts have met so far."""
        wanted = {(cut.target.name, cut.source.address) for cut in cuts}
        return sum(
            int(line.split()[0])
            for target in {cut.target.name: cut.target for cut in cuts}.values()
            for line in _run(*target.wrapper, "iptables", "-w", "-nvxL", "INPUT").splitlines()
            if "DROP" in line and any((target.name, word) in wanted for word in line.split())
        )

    def rules(self) -> int:
        """How many rules stand anywhere."""
        if not self.isolated:
            return 0
        return sum(
            len([line for line in _run(*host.wrapper, "iptables", "-w", "-S").splitlines() if line.startswith("-A")])
            for host in self.hosts.values()
        )

    def can_connect(self, source: Host, target: Host, port: int, *, seconds: float = 0.7) -> bool:
        """Whether a TCP connection from there opens within that time."""
        code = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), float(sys.argv[3]))"
        program = [sys.executable, "-Sc", code, target.address, str(port), str(seconds)]
        done = subprocess.run([*source.wrapper, *program], capture_output=True, check=False)
        return done.returncode == 0

    def _change(self, action: str, cuts: Sequence[Cut]) -> None:
        assert self.isolated, "nothing can be cut on loopback"
        for cut in cuts:
            rule = ["INPUT", "-s", cut.source.address]
            if cut.ports:
                rule += ["-p", "tcp", "-m", "multiport", "--dports", ",".join(map(str, cut.ports))]
            _run(*cut.target.wrapper, "iptables", "-w", action, *rule, "-j", "DROP")

    def _host(self, name: str, number: int) -> Host:
        if not self.isolated:
            return Host(name, str(_FIRST_LOOPBACK + number), ())
        return Host(name, str(_FIRST_ADDRESS + number), ("nsenter", f"--net={_NAMESPACES}/{name}", "--"))


class NetworkFailed(Exception):
    """A program that changes the network ended with an error; the text is what it said."""


def _run(*arguments: str) -> str:
    done = subprocess.run(arguments, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NetworkFailed(f"{' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout
