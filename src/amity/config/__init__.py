"""Config: TOML and `key=value` overrides make one frozen, typed object.

`schema` says what a config is, `sections` which registry serves which key, `words` reads the
command line and `layers` puts defaults, files and overrides on top of each other.
"""

from amity.config.layers import ASIDE, code_named, guarded, load, nested, read_run, resolve
from amity.config.parts import (
    Availability,
    Checkpoint,
    Crowd,
    Evaluation,
    Facts,
    Layers,
    Stop,
    Train,
    Vectorising,
)
from amity.config.picks import read_strategy, strategy_name, typed
from amity.config.schema import Change, Config, Pick
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
from amity.toml import read_toml

__all__ = [
    "ASIDE",
    "PARTS",
    "SCALARS",
    "SECTIONS",
    "STAGE",
    "TRAINING",
    "Availability",
    "Change",
    "Checkpoint",
    "Config",
    "Crowd",
    "Evaluation",
    "Facts",
    "Layers",
    "Pick",
    "Stop",
    "Train",
    "Vectorising",
    "code_named",
    "count",
    "guarded",
    "load",
    "nested",
    "only",
    "out_path",
    "parse",
    "read_run",
    "read_spec",
    "read_strategy",
    "read_toml",
    "resolve",
    "scalar",
    "seeds_of",
    "split_list",
    "split_words",
    "strategy_name",
    "typed",
]
