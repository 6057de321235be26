"""Everything that one peer can learn about another, what it costs, and where it is computed.

This list is the privacy boundary and the cost table. A fact says what must travel (`moves`),
whether my model travels to the neighbour first (`sends`), and whether it tells something about raw
data that the noise on the training does not protect (`raw`).

| fact | answer | moves | computed |
|---|---|---|---|
| `Pull()` | examples of j; its model may now stand in my row | model | - |
| `Similarity()` | cos(φ_i, φ_j) of the cards | card | me |
| `Likeness()` | how alike any two are, chance set aside, from cards with two halves | card | me |
| `Loss()` | F_i(ŵ_j): loss of j's model on my data, training or validation | model | me: a pass |
| `Distance()` | ‖ŵ_j − w_i‖ from my model after (or before) this round's training | model | me |
| `Distances()` | ‖ŵ_j − ŵ_k‖ for all pairs of those asked | model | me |
| `Cosine()` | cos(ŵ_j, w_i), of the models or of what they learned since the start | model | me |
| `Slope()` | ⟨∇F_i, ŵ_j − w_i⟩: how my loss changes towards j's model | model | me: a gradient |
| `MixtureLoss()` | F_i(Σ_j ϖ_j ŵ_j): losses of mixtures of those asked | model | me: a pass each |
| `Agreement()` | how often a mixture of models gives my answers | model | me: a pass |
| `Skill()` | what each model knows of a few of my examples beyond chance | model | me: a pass |
| `Alone()` | how often I would be right if I learnt from nobody | - | me: training |
| `Degree()` | how many neighbours j reaches | - (it comes with j's sign of life) | - |
| `Reported()` | j's own losses before and after training | reply | j: two passes per round |
| `Said()` | what j's strategy said at the end of its last round | reply | - |
| `Probe()` | φ_j and F_j at my model | my model there, card and reply back | j: a pass |
| `Visit()` | as Probe, then j trains a copy of my model | my model there, all back | j: training |
| `Labels()` | j's label distribution: a reference, simulator only | - | - |
| `Groups()` | j's hidden group, None in a world without: a reference, simulator only | - | - |

The passes of `Loss`, `MixtureLoss`, `Agreement`, `Skill` and `Reported` go forward only; those of
`Reported` are shared by all askers. `Agreement`, `Skill` and `Alone` stand in
`peer/trials.py`.
"""

from amity.facts.base import Asker, Fact, Kind, Losses, Offer, Reading
from amity.facts.cards import Likeness, Similarity, is_copy, likeness
from amity.facts.ledger import REPLY_BYTES, Ledger, transfer
from amity.facts.models import (
    Cosine,
    Distance,
    Distances,
    Loss,
    Mixture,
    MixtureLoss,
    ModelFact,
    Pull,
    Slope,
    Split,
    mixture,
)
from amity.facts.references import Groups, Labels
from amity.facts.replies import MOST_SAID, Degree, Probe, Reported, Said, Visit

__all__ = [
    "MOST_SAID",
    "REPLY_BYTES",
    "Asker",
    "Cosine",
    "Degree",
    "Distance",
    "Distances",
    "Fact",
    "Groups",
    "Kind",
    "Labels",
    "Ledger",
    "Likeness",
    "Loss",
    "Losses",
    "Mixture",
    "MixtureLoss",
    "ModelFact",
    "Offer",
    "Probe",
    "Pull",
    "Reading",
    "Reported",
    "Said",
    "Similarity",
    "Slope",
    "Split",
    "Visit",
    "is_copy",
    "likeness",
    "mixture",
    "transfer",
]
