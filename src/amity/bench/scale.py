"""From 10 to 1,000 peers (and 10,000 with a small model): does a peer's round cost the same, and
what does memory hold?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from amity.bench.measure import Say, engine_timing, in_child
from amity.config import Config, resolve
from amity.round.build import load_data, make_learner


@dataclass(frozen=True, kw_only=True)
class ScaleRow:
    """Gossip with fine-tuning, for so many peers."""

    model: str
    graph: str
    peers: int
    seconds_per_peer: float
    """Of a round (train, select, mix), for each peer."""
    peak_mb: float
    """Of all processes together, shared pages counted once."""
    matrix_mb: float
    """m x P parameters in fp32."""
    data_mb: float

    @property
    def matrices(self) -> float:
        """Peak memory without the data, in parameter matrices."""
        return (self.peak_mb - self.data_mb) / self.matrix_mb


SAMPLES = 200
TEN_THOUSAND = 10_000


def scale_config(peers: int, small: bool = False) -> Config:
    rounds = 1 + max(1, min(10, 400 // peers))
    samples = 20 if small else SAMPLES
    topology = {"name": "regular", "k": 20} if small else {"name": "full"}
    return resolve(
        [
            {
                "data": {
                    "name": "synthetic",
                    "shape": "1x8x8" if small else "1x28x28",
                    "train": peers * samples,
                },
                "partition": {"name": "pathological", "classes": 2, "samples": samples, "test": 20},
                "model": {"name": "mlp", "hidden": 16} if small else {"name": "fedavg_cnn"},
                "strategy": {"name": "gossip"},
                "method": {"name": "finetune"},
                "topology": topology,
                "peers": peers,
                "rounds": rounds,
                "train": {"lr": 0.05, "batch": 32, "epochs": 1},
                "eval": {"every": rounds, "gradients_every": 0},
            }
        ]
    )


def measure_scale(say: Say) -> list[ScaleRow]:
    rows: list[ScaleRow] = []
    for peers, small in (
        (10, False),
        (100, False),
        (1000, False),
        (100, True),
        (TEN_THOUSAND, True),
    ):
        say(f"{peers:,} peers, {'mlp' if small else 'fedavg_cnn'}")
        rows.append(in_child(partial(_scaled, peers, small)))
    return rows


def _scaled(peers: int, small: bool) -> ScaleRow:
    config = scale_config(peers, small)
    timing = engine_timing(config)
    dataset = load_data(config)
    size = make_learner(config, dataset.shape, dataset.target).layout.size
    matrix, data = peers * size * 4 / 1e6, dataset.pixels.x.numel() / 1e6
    name = config.model.name
    return ScaleRow(
        model=name,
        graph=config.topology.name,
        peers=peers,
        seconds_per_peer=timing.round / peers,
        peak_mb=timing.peak_mb,
        matrix_mb=matrix,
        data_mb=data,
    )
