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

GUARD = "normclip"
"""What real peers start with, unless their strategy says what goes with it (`guard`): the stage
that suits strategies which take whom they do not know."""
