"""Where strategies register."""

from amity.core import Strategy
from amity.registry import Registry

strategies: Registry[Strategy] = Registry(
    "strategy",
    "decide",
    "pulls",
    attributes=("card",),
    generators={"decide": "Decision"},
    home="amity.strategies",
)
