"""One run from Python: four hidden groups of peers on the built-in digits, and whom each peer took
from in the last round."""

import amity

result = amity.run(
    peers=16,
    rounds=10,
    shift="permute_labels",
    partition={"name": "iid", "samples": 40},
    out="runs/quickstart",
)
print(f"accuracy {result.accuracy:.3f} after {len(result.rounds)} rounds, see {result.path}")
for edge in result.edges[-16:]:
    friends = ", ".join(f"{peer} {weight:.2f}" for peer, weight in edge.row.items())
    print(f"{edge.peer} <- {friends}")
