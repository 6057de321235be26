"""Where the live page listens. Nothing is loaded here that serves, so a command that is watched
does not load it either."""

from __future__ import annotations

import ipaddress
import os
import secrets
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from amity.errors import ConfigError, NetworkError
from amity.live.finding import identity_in

PORT = 8765


@dataclass(frozen=True, kw_only=True)
class Where:
    """Where to listen, and by what the server is known."""

    host: str = "127.0.0.1"
    port: int = 0
    identity: Path | None = None
    """A folder with key.pem and cert.pem; None: no TLS."""
    token: str = ""

    @classmethod
    def of(
        cls, host: str, port: int, paths: Sequence[Path], *, insecure: bool, tls: Path | None
    ) -> Where:
        """Other machines may look only by TLS, or if they are expressly allowed to."""
        if not 0 <= port <= 65535:
            raise ConfigError(f"--port: expected 0 to 65535, got {port}")
        identity = None
        if tls is not None or (not is_here(host) and not insecure):
            folders = [tls] if tls is not None else list(paths)
            found = (identity_in(f) or identity_in(f.parent) for f in folders)
            identity = next((one for one in found if one is not None), None)
            if identity is None and tls is not None:
                raise ConfigError(f"--tls {tls}: no peer's folder with identity/cert.pem")
        if identity is None and not is_here(host) and not insecure:
            raise ConfigError(
                f"--host {host}: is not this machine alone; give --tls DIR, a peer's folder whose"
                " certificate is used, or say --insecure: anyone on the way can then read along"
            )
        token = kept_token(port) if port else secrets.token_urlsafe(24)
        return cls(host=host, port=port, identity=identity, token=token)

    def listen(self) -> socket.socket:
        """The port that was asked for; without one, the usual, or any that is free."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        for port in (self.port,) if self.port else (PORT, 0):
            try:
                return socket.create_server((self.host, port), family=family, backlog=128)
            except OSError as error:
                if port != PORT or self.port:
                    raise NetworkError(
                        f"{self.host}:{port} cannot be listened on ({error.strerror}); choose"
                        " another --port"
                    ) from None
        raise AssertionError

    @property
    def scheme(self) -> str:
        return "http" if self.identity is None else "https"

    def address(self, listening: socket.socket) -> str:
        """What to open in a browser."""
        everywhere = self.host in ("0.0.0.0", "::", "")  # noqa: S104  only compared
        host = socket.gethostname() if everywhere else self.host
        host = f"[{host}]" if ":" in host else host
        port = listening.getsockname()[1]
        return f"{self.scheme}://{host}:{port}/?token={self.token}"

    @property
    def open(self) -> bool:
        return not is_here(self.host)


def kept_token(port: int) -> str:
    """The token of a port that was asked for: the same as the last time, so that pages which were
    open go on. It is kept in a file that only this user can read; where that cannot be, it is new
    each time."""
    home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "amity"
    path, token = home / f"live-{port}.token", secrets.token_urlsafe(24)
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileExistsError):
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(file, "w", encoding="ascii") as stream:
                stream.write(token)
        stat, kept = path.stat(), path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return token
    private = stat.st_uid == os.getuid() and not stat.st_mode & 0o077
    return kept if private and len(kept) >= len(token) else token


def is_here(host: str) -> bool:
    """Whether only this machine reaches it."""
    if host == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False
