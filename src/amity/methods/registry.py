"""Where methods register."""

from amity.core import Method
from amity.registry import Registry

methods: Registry[Method] = Registry(
    "method", "init", "train", "share", "absorb", "model", home="amity.methods"
)
