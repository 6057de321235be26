"""Config: TOML and `key=value` overrides make one frozen, typed object.

`schema` says what a config is, `sections` which registry serves which key, `words` reads the
command line and `layers` puts defaults, files and overrides on top of each other.
"""

from amity.config.layers import ASIDE, load, nested, read_run, read_toml, resolve
from amity.config.parts import (
    Availability,
    Checkpoint,
    Crowd,
    Evaluation,
    Facts,
    Layers,
    Train,
    Vectorising,
)
from amity.config.picks import typed
from amity.config.schema import Config, Pick
from amity.config.sections import PARTS, SCALARS, SECTIONS, STAGE
from amity.config.training import TRAINING
from amity.config.words import (
    count,
    only,
    out_path,
    parse,
    read_spec,
    scalar,
    seeds_of,
    split_list,
    split_words,
)

__all__ = [
    "ASIDE",
    "PARTS",
    "SCALARS",
    "SECTIONS",
    "STAGE",
    "TRAINING",
    "Availability",
    "Checkpoint",
    "Config",
    "Crowd",
    "Evaluation",
    "Facts",
    "Layers",
    "Pick",
    "Train",
    "Vectorising",
    "count",
    "load",
    "nested",
    "only",
    "out_path",
    "parse",
    "read_run",
    "read_spec",
    "read_toml",
    "resolve",
    "scalar",
    "seeds_of",
    "split_list",
    "split_words",
    "typed",
]
