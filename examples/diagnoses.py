"""Several diagnoses at once: four clinics, each patient may have any of three illnesses, or none.

Rare illnesses count more (`weights=balanced`); AUROC leads, so that tables and gains follow it. A
table does the same: `amity run data=patients.csv data.peer=clinic data.target=flu,asthma,anaemia
task=multilabel`.
"""

import numpy as np

import amity

ILLNESSES = ("flu", "asthma", "anaemia")
CLINICS = ("north", "south", "east", "west")


def patients() -> dict[str, np.ndarray]:
    """Measurements `x`, a column of 0 and 1 for each illness (`y`), and the clinic (`peer`)."""
    draw = np.random.default_rng(5)
    peer = np.repeat(CLINICS, 70)
    x = draw.normal(size=(len(peer), 8))
    signs = draw.normal(size=(8, 3))
    y = x @ signs + draw.normal(scale=0.5, size=(len(peer), 3)) > np.array([1.0, 2.0, 4.0])
    return {"x": x, "y": y.astype(int), "peer": peer}


result = amity.run(
    data=f"{__file__}:patients",
    task={"name": "multilabel", "lead": "auroc", "weights": "balanced"},
    partition="natural",
    peers=len(CLINICS),
    rounds=15,
    seed=1,
    sinks=[],
    **{"train.lr": 0.05, "train.batch": 16, "train.epochs": 2, "model.hidden": 16},
)
print(f"{result.metric.called}: {result.metric.text(result.score)}")
for peer, auroc in result.final().items():
    f1 = result.final("f1")[peer]
    print(f"{result.origins[peer]}: AUROC {auroc:.2f}, F1 {f1:.2f}")
