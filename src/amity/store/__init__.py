"""A run is a directory.

    config.toml                  the resolved config
    schema.json                  of one's own data: what inputs and classes mean
    extended.jsonl               if it was extended: before which round, and to what
    metrics.jsonl                one line per round and peer
    edges.jsonl                  one line per round and peer: who took how much from whom
    rounds.jsonl                 one line per round: the whole network
    why.jsonl                    what peers learnt about others while they decided
    world.json                   of a simulation: who is in which group, and has which labels
    timings.jsonl                wall-clock times; in these two files alone two runs differ:
    commands.jsonl               which commands made it, and when
    checkpoint/round-000010.*    .safetensors: models; .json: the commit record, written last
    best/PEER-000007.safetensors a peer after its best round, where there are validation examples
    matrix.json, matrix.csv      everyone's model on everyone's test examples (`amity matrix`)

A checkpoint counts only if its commit record is whole and agrees, by SHA-256, with the tensors and
with the lines written so far. `recover` takes the newest such record and cuts the line files back
to it. So torn lines, half-written checkpoints and anything after a kill are repaired, never
trusted.
"""

from amity.store.best import best_model, best_records
from amity.store.checks import differences, refuse_foreign, refuse_unusable, same_code
from amity.store.commands import note_command, read_commands
from amity.store.crossed import Crossed, mean_rows, read_crossed
from amity.store.owner import Owner, how_to_go_on, owner_of, refuse_others
from amity.store.reading import (
    Commit,
    admit_code,
    commits,
    read_config,
    read_lines,
    read_records,
    refuse_no_run,
    schema_of,
)
from amity.store.rundir import Checkpointed, RunDir, ended, finished, locked
from amity.store.world import write_world

__all__ = [
    "Checkpointed",
    "Commit",
    "Crossed",
    "Owner",
    "RunDir",
    "admit_code",
    "best_model",
    "best_records",
    "commits",
    "differences",
    "ended",
    "finished",
    "how_to_go_on",
    "locked",
    "mean_rows",
    "note_command",
    "owner_of",
    "read_commands",
    "read_config",
    "read_crossed",
    "read_lines",
    "read_records",
    "refuse_foreign",
    "refuse_no_run",
    "refuse_others",
    "refuse_unusable",
    "same_code",
    "schema_of",
    "write_world",
]
