"""Where stages register."""

from amity.core import Strategy
from amity.registry import Registry

stages: Registry[Strategy] = Registry(
    "stage", "decide", "pulls", attributes=("card",), home="amity.stages"
)
