"""Where proxies register."""

from __future__ import annotations

from amity.errors import ConfigError
from amity.peer.proxies.base import Proxy
from amity.registry import Absent, Registry


class Proxies(Registry[Proxy]):
    """All proxies by name. A strategy knows its proxy by name alone, so it is made here, once: a
    file of one's own that is edited during a run does not change it."""

    def __init__(self) -> None:
        super().__init__("proxy", "of", home="amity.peer.proxies")
        self._made: dict[str, tuple[Proxy, str]] = {}

    def read(self, name: str) -> Proxy:
        """Make a proxy, from its file as it is now."""
        entry = self[name]
        made = entry.build({})
        if isinstance(made, Absent):
            return made  # its code is withheld
        if not isinstance(made, Proxy):
            raise ConfigError(f"proxy {name!r}: {entry.cls.__name__} must inherit amity.Proxy")
        self._made[name] = (made, entry.code)
        return made

    def made(self, name: str) -> Proxy:
        """A proxy as it was read last."""
        return self._made[name][0] if name in self._made else self.read(name)

    def code(self, name: str) -> str:
        """The SHA-256 of the file that it was read from; empty for what is registered."""
        self.made(name)
        return self._made[name][1] if name in self._made else self[name].code


proxies = Proxies()
