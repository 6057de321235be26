"""Links between peers, one file each: a file in this folder is found by itself."""

from amity.net.link.registry import links, transport_of

__all__ = ["links", "transport_of"]
