"""Your own model in a few lines: a function of the examples' shape and the number of classes.

From the command line: `amity run model=examples/own_model.py:make`. A class whose constructor takes
(shape, classes) works in the same way, and so does a frozen dataclass with `build(shape, classes)`,
whose fields are then options (`model.width=32`). In Python a module that is there already may be
passed as `model=net`: all peers start from its weights.
"""

from torch import nn

import amity


def make(shape: tuple[int, ...], classes: int) -> nn.Module:
    """One tensor comes out: for each example one number per class. GroupNorm, because BatchNorm's
    statistics do not average well between peers (docs/MODELS.md)."""
    channels, height, width = shape
    return nn.Sequential(
        nn.Conv2d(channels, 8, 3, padding=1),
        nn.GroupNorm(2, 8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.1),
        nn.Linear(8 * height * width, classes),
    )


result = amity.run(model=make, peers=6, rounds=5, strategy="gossip")
print(f"{result.config.model.label}: {100 * result.accuracy:.0f} %")
