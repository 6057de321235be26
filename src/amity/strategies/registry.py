"""Where strategies register."""

from amity.core import Strategy
from amity.registry import Registry

strategies: Registry[Strategy] = Registry(
    "strategy", "decide", "pulls", attributes=("card",), home="amity.strategies"
)
