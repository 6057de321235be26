"""One run from Python: AFIND+ on the built-in digits, then whom each peer took from in the last
round."""

import amity

result = amity.run(
    strategy="afind+", peers=10, rounds=10, out="runs/quickstart", **{"strategy.tau": 0.8}
)
print(f"accuracy {result.accuracy:.3f} after {len(result.rounds)} rounds, see {result.path}")
for edge in result.edges[-10:]:
    friends = ", ".join(f"{peer} {weight:.2f}" for peer, weight in edge.row.items())
    print(f"{edge.peer} <- {friends}")
