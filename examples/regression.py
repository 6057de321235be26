"""A regression between plants: five power stations predict their output in MW, and learn together.

Two of them stand at the sea, where the air is another; no station is told which. Numbers are
standardised inside, and everything is reported in their own unit. A table does the same:
`amity run data=plants.csv data.peer=plant data.target=output task=regress task.unit=MW`.
"""

import numpy as np

import amity

PLANTS = ("north", "hill", "valley", "port", "island")


def plants() -> dict[str, np.ndarray]:
    """Temperature, pressure and humidity `x`, output `y`, and whose they are (`peer`)."""
    draw = np.random.default_rng(3)
    peer = np.repeat(PLANTS, 60)
    x = draw.normal(size=(len(peer), 3))
    sea = np.isin(peer, ("port", "island"))
    slopes = np.where(sea[:, None], [-9.0, 2.0, 6.0], [-14.0, 4.0, -3.0])
    y = 450 + (x * slopes).sum(1) + draw.normal(scale=2.0, size=len(peer))
    return {"x": x, "y": y, "peer": peer}


comparison = amity.compare(
    ["friends", "gossip", "local"],
    seeds=[1, 2],
    data=f"{__file__}:plants",
    task={"name": "regress", "error": "huber", "unit": "MW"},
    partition="natural",
    peers=len(PLANTS),
    rounds=20,
    sinks=[],
    **{"train.lr": 0.05, "train.batch": 16, "train.epochs": 2, "model.hidden": 16},
)
for line in comparison.lines:
    metric = line.metric
    gain = "" if line.gain is None or not line.taken else f", gain {metric.number(line.gain, '+')}"
    print(f"{line.label}: {metric.called} {metric.text(line.accuracy)}{gain}")
run = comparison.results["friends"][0]
for peer, error in run.final().items():
    print(f"  {run.origins[peer]}: {run.metric.text(error)}, R² {run.final('r2')[peer]:.2f}")
