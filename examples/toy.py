"""The paper's toy: whom should client 2 work with?

Clients 1 and 2 hold labels 4 to 7, client 3 holds labels 0 to 3. Client 2 trains alone, with 1, with 3 and with both;
collaboration is averaging all models after every round, client 2 is measured as it is after mixing and fine-tuning.

`python examples/toy.py` needs FashionMNIST (AMITY_DATA or Debian's package); `python examples/toy.py digits` does not.
Options: `python examples/toy.py [DATASET] [OUT.svg] [ROUNDS]`.
"""

import sys
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

import amity
from amity.figures import svg
from amity.run import load_data
from amity.simulate import Simulation

DATASET, OUT, ROUNDS = [*sys.argv[1:], *["fashionmnist", "toy.svg", "30"][len(sys.argv) - 1 :]]
LABELS = {"1": (4, 5, 6, 7), "2": (4, 5, 6, 7), "3": (0, 1, 2, 3)}
GROUPS = {"alone": "2", "with 1": "12", "with 3": "23", "with 1 and 3": "123"}


@dataclass(frozen=True)
class Clients:
    """The clients of one group, each with 80 examples of its own labels."""

    natural = False
    who: str = "2"
    samples: int = 80
    test: int = 200
    validation: float = 0.0

    def deal(self, pool, peers, draw):
        """Client c always gets the same examples, whoever else is there."""
        hands = {}
        for client, labels in LABELS.items():
            mine = draw.permutation(pool.index[np.isin(pool.labels, labels)])
            taken = np.concatenate([hands[c] for c in hands]) if hands else mine[:0]
            hands[client] = np.setdiff1d(mine, taken, assume_unique=True)[: self.samples]
        return [hands[client] for client in self.who]


def accuracy(who: str, seed: int) -> list[tuple[int, float]]:
    """Rounds and accuracies of client 2."""
    strategy = {"name": "gossip", "k": 2} if len(who) > 1 else {"name": "local"}
    small = {"train.batch": 16, "train.epochs": 2, "train.lr": 0.02, "eval.gradients_every": 0, "eval.every": 4}
    config = amity.load(None, {"data": DATASET, "peers": len(who), "rounds": int(ROUNDS), "seed": seed, **small})
    config = config.replace(strategy=strategy, partition=Clients(who))
    simulation = Simulation(config, load_data(config), tuple(f"client-{c}" for c in who))
    records = [simulation.round().peers["client-2"] for _ in range(int(ROUNDS))]
    return [(r["round"] + 1, r["accuracy"]) for r in records if "accuracy" in r]


curves = {name: np.mean([accuracy(who, seed) for seed in range(3)], axis=0) for name, who in GROUPS.items()}
figure = Figure(figsize=(6, 3.6))
axes = figure.subplots()
for name, curve in curves.items():
    axes.plot(curve[:, 0], 100 * curve[:, 1], label=name)
    print(f"client 2 {name:13} {100 * curve[-3:, 1].mean():5.1f} %  (mean of the last three measurements, 3 seeds)")
axes.set(xlabel="round", ylabel="accuracy of client 2 (%)", title=f"{DATASET}: 1 and 2 hold labels 4-7, 3 holds 0-3")
axes.legend(frameon=False)
with open(OUT, "w", encoding="utf-8") as file:
    file.write(svg(figure))
print(f"picture: {OUT}")
