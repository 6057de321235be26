"""Network namespaces for tests: one a peer, on two bridges with one cable between them. Needs root
and iproute2."""

from __future__ import annotations

import ctypes
import os
import secrets
import shutil
import subprocess
from collections.abc import Sequence
from types import TracebackType

CLONE_NEWNET = 0x40000000


def why_not() -> str:
    """Why this machine cannot do it; empty if it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None or shutil.which("tc") is None:
        return "network namespaces need iproute2"
    probe = f"amity-probe-{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", probe], capture_output=True, check=False).returncode:
        return "this kernel or container gives no network namespaces"
    subprocess.run(["ip", "netns", "del", probe], check=False)
    return ""


def sh(command: str) -> None:
    subprocess.run(command.split(), check=True, capture_output=True)


class Lab:
    """Peers 0 .. n-1, the first half on one bridge, the others on the second. Everything is taken
    down at the end."""

    def __init__(self, names: Sequence[str]) -> None:
        self.id = secrets.token_hex(2)
        self.names = list(names)
        self.hosts = {name: f"10.77.0.{at + 10}" for at, name in enumerate(names)}
        self.space = {name: f"am{self.id}n{at}" for at, name in enumerate(names)}
        self.left, self.right = f"am{self.id}L", f"am{self.id}R"

    def __enter__(self) -> Lab:
        try:
            for bridge in (self.left, self.right):
                sh(f"ip link add {bridge} type bridge")
                sh(f"ip link set {bridge} up")
            sh(f"ip link add {self.left}c type veth peer name {self.right}c")
            for bridge in (self.left, self.right):
                sh(f"ip link set {bridge}c master {bridge} up")
            for at, name in enumerate(self.names):
                self._plug(name, self.left if at < len(self.names) // 2 else self.right)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _plug(self, name: str, bridge: str) -> None:
        space = self.space[name]
        sh(f"ip netns add {space}")
        sh(f"ip link add {space}o type veth peer name eth0 netns {space}")
        sh(f"ip link set {space}o master {bridge} up")
        sh(f"ip -n {space} addr add {self.hosts[name]}/24 dev eth0")
        sh(f"ip -n {space} link set eth0 up")
        sh(f"ip -n {space} link set lo up")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        for space in self.space.values():
            subprocess.run(["ip", "netns", "del", space], capture_output=True, check=False)
        for bridge in (self.left, self.right):
            subprocess.run(["ip", "link", "del", bridge], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", f"{self.left}c"], capture_output=True, check=False)

    def enter(self, name: str) -> None:
        """Move this process into a peer's namespace."""
        with open(f"/run/netns/{self.space[name]}") as handle:
            if ctypes.CDLL(None, use_errno=True).setns(handle.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")

    def cut(self) -> None:
        sh(f"ip link set {self.left}c down")

    def heal(self) -> None:
        sh(f"ip link set {self.left}c up")

    def slow(self, name: str, mbit: int) -> None:
        """Both directions of one peer's cable."""
        shape = f"root tbf rate {mbit}mbit burst 16kb latency 400ms"
        sh(f"tc qdisc add dev {self.space[name]}o {shape}")
        sh(f"ip netns exec {self.space[name]} tc qdisc add dev eth0 {shape}")
