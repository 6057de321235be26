"""Where links register."""

from amity.errors import ConfigError
from amity.net.link.base import Transport
from amity.registry import Registry

links: Registry[Transport] = Registry("link", "open", "relay", home="amity.net.link")


def transport_of(name: str) -> Transport:
    """What `net.link` names."""
    try:
        return links[name].build({})
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"net.link={name}: needs {error.name}; pip install 'amity[peers]'"
        ) from None
