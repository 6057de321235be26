"""A text model: four authors teach each other the next letter, in two languages that are made up.

Sequences are lists of ids from 1 on; 0 is padding. The answers are the same sequences, one letter
ahead. Perplexity leads, and less is better: 1 would be to know every letter.
"""

import numpy as np

import amity

LENGTH, LETTERS = 16, 8
AUTHORS = ("Ada", "Ben", "Cleo", "Dov")


def texts() -> dict[str, np.ndarray]:
    """Ids `x`, the id after each of them (`y`), and who wrote it (`peer`)."""
    draw = np.random.default_rng(2)
    steps = {"Ada": 1, "Ben": 1, "Cleo": 3, "Dov": 3}
    peer = np.repeat(AUTHORS, 40)
    whole = np.zeros((len(peer), LENGTH + 1), int)
    for row, author in zip(whole, peer, strict=True):
        length = draw.integers(LENGTH // 2, LENGTH + 1)
        slips = draw.integers(0, 2, size=length + 1) * (draw.random(length + 1) < 0.2)
        letters = draw.integers(LETTERS) + np.cumsum(steps[str(author)] + slips)
        row[: length + 1] = letters % LETTERS + 1
    return {"x": whole[:, :-1], "y": whole[:, 1:], "peer": peer}


result = amity.run(
    data={"name": f"{__file__}:texts", "kind": "tokens"},
    task="tokens",
    model={"name": "gru", "embed": 8, "hidden": 16},
    partition="natural",
    peers=len(AUTHORS),
    rounds=12,
    seed=1,
    sinks=[],
    **{"train.optimiser": "adam", "train.lr": 0.02, "train.batch": 16, "train.epochs": 2},
)
print(f"untrained: perplexity {result.start:.2f}")
for peer, perplexity in result.final().items():
    accuracy = result.final("accuracy")[peer]
    print(f"{result.origins[peer]}: perplexity {perplexity:.2f}, {100 * accuracy:.0f} % right")
