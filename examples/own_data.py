"""Your own data in five lines: three hospitals, each with rows of measurements and a diagnosis.

Any of these works: arrays (`data=scans.npz` with x, y and optionally peer, split), a folder of
images (`data=folder/` with CLASS/file or PEER/CLASS/file), a table (`data=table.csv
data.label=diagnosis data.peer=hospital`), or a function as here.
"""

import numpy as np

import amity


def hospitals() -> dict[str, np.ndarray]:
    """Examples `x`, labels `y` (numbers or names) and who holds them (`peer`); a fifth of each is
    kept for testing."""
    draw = np.random.default_rng(0)
    peer = np.repeat(["north", "south", "west"], 80)
    y = draw.choice(["healthy", "ill"], size=240)
    x = draw.normal(size=(240, 6)) + 1.5 * (y == "ill")[:, None] * (peer != "west")[:, None]
    return {"x": x, "y": y, "peer": peer}


result = amity.run(
    data=f"{__file__}:hospitals", peers=3, rounds=10, partition="natural", **{"train.batch": 16}
)
for peer, accuracy in result.final().items():
    print(f"{peer} ({result.origins[peer]}): {accuracy:.2f}")
