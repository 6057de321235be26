"""Where stages register."""

from amity.core import Strategy
from amity.registry import Registry

stages: Registry[Strategy] = Registry(
    "stage",
    "decide",
    "pulls",
    attributes=("card",),
    generators={"decide": "Decision"},
    home="amity.stages",
)
