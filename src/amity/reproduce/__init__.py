"""The paper, claim by claim: every table and figure by one command, with what the paper prints
beside it and a verdict.

`amity reproduce table1 --preset cpu`. An experiment (`catalogue`) is rows x columns x panels of
configs; its cells are runs like any other (`cells`), from each of which a small record is kept
(`record`); a table (`table`) is made from records alone, and so are its picture (`pictures`) and
its verdicts (`verdicts`). What the paper prints is in `paper.toml`.
"""

from amity.reproduce.catalogue import EXPERIMENTS, PRESETS, experiment
from amity.reproduce.run import reproduce
from amity.reproduce.table import Table

__all__ = ["EXPERIMENTS", "PRESETS", "Table", "experiment", "reproduce"]
