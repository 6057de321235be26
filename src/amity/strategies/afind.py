"""AFIND and AFIND+: every peer finds its friends."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from pydantic import Field

from amity.choosing import finite, sample, ties
from amity.core import Answers, Ask, Band, Decision, PeerId, Plan, Row, Traffic, View, spread
from amity.facts import Loss, Losses, Probe, Pull, Reading, Reported, Similarity, Visit
from amity.peer.proxy import Bits, CardSpec, ProxyName
from amity.registry import QUIET
from amity.strategies import confidence
from amity.strategies.registry import strategies

PAPER: dict[str, Any] = {}
"""The field defaults of `Afind` are the preset `paper`."""

LITERAL: dict[str, Any] = {
    "threshold": "literal",
    "entropy_over": "coreset",
    "reprobe": "coreset",
    "include_self": False,
    "protocol": "visit",
    "sketch": 0,
}
TUNED: dict[str, Any] = {
    "sketch": 256,
    "upsilon": 0.3,
    "average": 0.8,
    "reprobe": "all",
    "tau": 0.2,
    "max_neighbours": 5,
    "cut": "draw",
    "include_self": False,
    "loss_side": "requester",
    "gamma": 0.0,
    "temperature": 10.0,
}
WARY: dict[str, Any] = {
    "sketch": 256,
    "upsilon": "auto",
    "average": 0.8,
    "reprobe": "all",
    "loss_side": "requester",
    "gamma": 0.0,
}
PRESETS = {"paper": PAPER, "literal": LITERAL, "tuned": TUNED, "wary": WARY}


CROWD = 4
"""So many neighbours' own models can do without mine."""


@dataclass(frozen=True)
class Notebook:
    """What peer i knows of its neighbours: p_ij, s_ij (averaged), F̃_ij, and whom it took last."""

    p: dict[PeerId, float]
    s: dict[PeerId, float]
    loss: dict[PeerId, float]
    taken: list[PeerId]
    probed: int | None = None
    """The round in which everyone was probed last."""

    @classmethod
    def read(cls, view: View) -> Notebook:
        """From memory; at first p = 1/n, and who joins later starts with the mean p of those
        known."""
        memory = view.memory or {"p": {}, "s": {}, "loss": {}, "taken": []}
        known = memory["p"]
        start = sum(known.values()) / len(known) if known else 1 / max(len(view.neighbours), 1)
        return cls(**{**memory, "p": dict.fromkeys(view.neighbours, start) | known})

    def write(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class Choice:
    """C_i with the θ_i and the effective number of neighbours that led to it."""

    peers: tuple[PeerId, ...]
    theta: float = 0.0
    effective: float = 0.0


@strategies.register("afind+", presets=PRESETS, preset="tuned")
@strategies.register("afind", presets=PRESETS, preset="tuned", defaults={"ablation": "i+ii"})
@dataclass(frozen=True, kw_only=True)
class Afind:
    r"""Take as many neighbours as a confidence threshold admits, weighed by the Boltzmann
    distribution of loss.

    A peer i (i) knows its neighbours j by the cosine s_ij of a proxy φ of their data, (ii) admits
    all whose probability passes a threshold that follows from how alike they are, and (iii) weighs
    them by loss. `afind` is (i) and (ii).

    (i)   p_ij = exp(s_ij/υ) / Σ_{k∈B_i} exp(s_ik/υ);
          when only C_i was seen, C_i shares anew the probability it had.
    (ii)  e_ij = (s_ij + 1)/2,  q_ij = e_ij / Σ_{k∈B_i} e_ik,  h_i = −Σ_j q_ij ln q_ij,
          C̃_i = 1 − σ(h_i),  θ_i = τ·C̃_i = τ/(1 + exp h_i),
          C_i = { j ∈ B_i : p_ij ≥ θ_i };  C_i = B_i at first.
    (iii) F̃_j = (1 − γ)·F_j(after training) + γ·F_j(before),  ϖ_ij ∝ exp(−F̃_j/T) over C_i ∪ {i},
          w_i^{t+1} = Σ_j ϖ_ij ŵ_j;  with nobody admitted, w_i^{t+1} = ŵ_i.

    Symbols and fields: φ `proxy`, `sketch` (numbers on the card, 0: all) and `bits` (1: their signs
    alone), υ `upsilon` ("auto": half the standard deviation of s_i·), τ `tau`, γ `gamma`, T
    `temperature`, B_i those in reach, C_i those taken.

    Extremes: τ → 0 takes everyone, τ > 2 may take no one; υ → ∞ makes all p equal, υ → 0 leaves
    only the most similar; T → ∞ is uniform; γ = 1 weighs by the loss before training only.

    Where the paper is ambiguous, and what we do:
    - h sums e over C_i, which is no distribution (`threshold`="literal", `entropy_over`="coreset"):
      with many neighbours it admits everyone or no one. Default: e normalised, over B_i. Also
      "softmax_p" (entropy of p), "mean", "mean_similarity", the Remark's direction "remark", and
      "fixed_k" (the `k` most probable: ablation without ii).
    - Excluded neighbours never return as printed (`reprobe`="coreset"). Default "every": cards of
      all every `reprobe_every` rounds. "all": cards of all every round, seen before choosing.
    - `protocol` "visit" is Algorithm 1 to the letter: each chosen neighbour trains a copy of my
      model. Default "exchange": each trains its own once, others pull the result.
    - F_j is j's loss on j's data as printed (`loss_side`="neighbour"); "requester" is F_i(ŵ_j), j's
      model on my data. With it, `smoothing`="round" takes my own loss at the round's start as the
      loss before, the same for all, so that γ only turns the temperature into T/(1 − γ).
    - `smoothing` "round" is the equation, "across" the prose: F̃^t = (1 − γ)·F^t + γ·F̃^{t−1}.
    - `include_self`: whether i stands in its own average. Where neighbours send models of their own
      ("exchange") it does in any case unless four of them came: a mean of few others forgets what i
      has learnt.
    - `average`: s̄ ← a·s̄ + (1 − a)·s over rounds, 0 forgets.
    - p is called a sampling probability and used as a score. `cut`="top" takes the `max_neighbours`
      most probable of those admitted, "draw" draws them by p. `explore`: so many of the others are
      taken at random each round.
    - `ablation`: the rows of Table 2.

    Reference: "AFIND+" (arXiv 2407.04460), equations of sections 3.2 to 3.4, Algorithm 1. Presets:
    `literal` as printed, `paper` the closest reading that works, `tuned` what our experiments
    favour (`amity reproduce study`): a few neighbours drawn by p, weighed almost equally, myself
    not among them; `wary` trusts its own loss on its own data most, which costs accuracy where
    everyone is honest and keeps most attackers out.
    """

    proxy: ProxyName = "grad"
    """φ, what cards show of a peer's data: `amity list proxies`, or your own, `mine.py:Class`."""
    sketch: Annotated[int, Field(ge=0)] = 1024
    """Numbers on a card, to which φ is compressed; 0: all of φ."""
    bits: Bits = field(default=32, metadata=QUIET)
    """Bits of a number on a card: 1 shows the sign alone."""
    average: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """How much of the similarities of earlier rounds is kept: s̄ ← a·s̄ + (1 − a)·s; 0 forgets."""
    upsilon: Annotated[float, Field(gt=0)] | Literal["auto"] = 0.1
    """υ, the temperature of p: towards 0 only the most similar counts, towards ∞ all are equal;
    `auto` is half the standard deviation of the similarities."""
    threshold: confidence.Threshold = "normalised"
    """How the threshold θ follows from the similarities; `fixed_k` takes the k most probable
    instead."""
    entropy_over: Literal["neighbours", "coreset"] = "neighbours"
    """Over whom the entropy h is: all in reach, or those taken last."""
    tau: Annotated[float, Field(gt=0)] = 0.5
    """τ, factor on the threshold: towards 0 everyone is taken, above 2 perhaps nobody."""
    k: Annotated[int, Field(ge=1)] = 10
    """Neighbours taken with threshold=fixed_k, or with ablation=i."""
    reprobe: Literal["coreset", "every", "all"] = "every"
    """Whose cards are looked at: those taken (`coreset`), everyone from time to time (`every`), or
    everyone in every round before the choice (`all`)."""
    reprobe_every: Annotated[int, Field(ge=1)] = 10
    """Rounds between two looks at everyone, with reprobe=every."""
    loss_side: Literal["neighbour", "requester"] = "neighbour"
    """Whose loss weighs: j's own on its data (`neighbour`), or that of j's model on mine
    (`requester`)."""
    gamma: Annotated[float, Field(ge=0, le=1)] = 0.9
    """γ, share of the loss before training in the smoothed loss; 1: nothing else counts."""
    smoothing: Literal["round", "across"] = "round"
    """What the loss after training is smoothed with: that of the round's start (`round`), or that
    of earlier rounds (`across`)."""
    temperature: Annotated[float, Field(gt=0)] = 1.0
    """T of the weights exp(−loss/T): towards ∞ all weigh the same."""
    include_self: bool = True
    """Whether my own model is part of my average, if four or more neighbours are."""
    min_neighbours: Annotated[int, Field(ge=0)] = 0
    """At least so many are taken, the most probable first."""
    max_neighbours: Annotated[int, Field(ge=0)] = 0
    """At most so many are taken; 0: any number."""
    cut: Literal["top", "draw"] = "top"
    """Who stays if too many are admitted: the most probable (`top`), or a draw by p (`draw`)."""
    explore: Annotated[int, Field(ge=0)] = 0
    """So many of the others are taken besides in every round, at random."""
    min_similarity: Annotated[float, Field(ge=-1, le=1)] = -1.0
    """Who is less similar is never taken; −1: nobody is left out."""
    protocol: Literal["exchange", "visit"] = "exchange"
    """`exchange`: everyone trains its own model and others pull it. `visit`: every neighbour trains
    a copy of mine (Algorithm 1 to the letter; costs much more)."""
    ablation: Literal["i", "i+ii", "i+ii+iii"] = "i+ii+iii"
    """The parts that are in use, as in Table 2: (i) similarity, (ii) threshold, (iii) weights."""

    def __post_init__(self) -> None:
        if self.protocol == "visit" and not self.card.kind.probed:
            raise ValueError(
                f"protocol=visit knows neighbours by proxy=grad only, got proxy={self.proxy}"
            )
        if self.card.kind.centered and self.reprobe != "all":
            raise ValueError(f"proxy={self.proxy} needs the cards of everyone: use reprobe=all")

    @property
    def card(self) -> CardSpec:
        return CardSpec(self.proxy, self.sketch, self.bits)

    @property
    def _threshold(self) -> confidence.Threshold:
        return self.threshold if "ii" in self.ablation.split("+") else "fixed_k"

    def pulls(self, neighbours: int) -> Traffic:
        """Whom the threshold admits is not known beforehand. A probe or a visit costs the one who
        is asked a model."""
        n, taken = neighbours, self._taken(neighbours)
        looks = {"all": n, "every": n / self.reprobe_every, "coreset": 0.0}[self.reprobe]
        if self.protocol == "visit" or self.card.kind.at_asker:
            cards = Band(max(looks, taken.least), looks + taken.most)
            sent = Band(cards.least, min(n, cards.most))
            return Traffic(Band(taken.least + sent.least, taken.most + sent.most), cards)
        if self.reprobe == "all":
            return Traffic(taken)
        return Traffic(taken, Band(max(looks, taken.least), min(n, looks + taken.most)))

    def _taken(self, neighbours: int) -> Band:
        """From how few to how many are taken in a round."""
        most = min(neighbours, self.max_neighbours or neighbours)
        least = min(self.min_neighbours, most)
        if self._threshold == "fixed_k":
            most = min(self.k, most)
            least = most if self.min_similarity == -1 else min(least, most)
        return Band(min(neighbours, least + self.explore), min(neighbours, most + self.explore))

    # -- the plan ----------------------------------------------------------------------------------

    def decide(self, view: View, row: Row) -> Plan:
        book = Notebook.read(view)
        readings: dict[PeerId, Reading] = {}
        if self.reprobe == "all":
            readings = yield from self._look(view.neighbours)
            book = self._learn(view, book, readings)
        choice = self._choose(view, book)
        if self.protocol == "visit":
            visits: dict[PeerId, Reading] = dict((yield Ask(Visit(), choice.peers)))
            arrived, readings = tuple(sorted(visits)), readings | visits
        else:
            arrived = tuple(sorted((yield Ask(Pull(), choice.peers))))
        if self.reprobe != "all":
            last = book.probed
            due = self.reprobe == "every" and (
                last is None or view.round - last >= self.reprobe_every
            )
            unseen = tuple(j for j in (view.neighbours if due else arrived) if j not in readings)
            readings |= yield from self._look(unseen)
            book = self._learn(view, book, readings)
            if due and view.neighbours:
                book = replace(book, probed=view.round)
        row, book = yield from self._weigh(
            view, replace(book, taken=list(arrived) or book.taken), arrived, readings
        )
        return Decision(row, book.write(), self._notes(view, book, choice), self._known(view, book))

    def _look(self, peers: tuple[PeerId, ...]) -> Generator[Ask, Answers, dict[PeerId, Reading]]:
        """Similarities, from cards or (for gradients at my own model) from probes."""
        if self.protocol == "visit" or self.card.kind.at_asker:
            return dict((yield Ask(Probe(), peers)))
        similar = yield Ask(Similarity(centered=self.card.kind.centered), peers)
        return {j: Reading(s, None) for j, s in similar.items()}

    def _learn(self, view: View, book: Notebook, readings: dict[PeerId, Reading]) -> Notebook:
        """(i): average similarities into the notebook, then share the probability of those seen
        anew."""
        a = self.average
        seen = {
            j: a * book.s[j] + (1 - a) * reading.similarity if j in book.s else reading.similarity
            for j, reading in readings.items()
        }
        s = book.s | seen
        upsilon = confidence.temperature({j: s[j] for j in view.neighbours if j in s}, self.upsilon)
        return replace(book, s=s, p=confidence.redistribute(book.p, seen, upsilon))

    def _choose(self, view: View, book: Notebook) -> Choice:
        """(ii): C_i, everyone in reach while nothing is known."""
        lot = ties(view)
        if not self._known(view, book):
            everyone = (
                sample(view.neighbours, self.k, view.rng)
                if self._threshold == "fixed_k"
                else view.neighbours
            )
            return Choice(self._bounded(view, everyone, dict.fromkeys(view.neighbours, 1.0), lot))
        p = confidence.over(book.p, view.neighbours)
        coreset = tuple(j for j in view.neighbours if j in book.taken)
        domain = coreset if self.entropy_over == "coreset" and coreset else view.neighbours
        s = {j: book.s.get(j, 0.0) for j in domain}
        if self._threshold == "fixed_k":
            peers = tuple(self._ranked(view, p, lot)[: self.k])
            theta, effective = min((p[j] for j in peers), default=0.0), float(len(peers))
        else:
            theta, effective = confidence.theta_of(s, p, self.tau, self._threshold)
            peers = confidence.admitted(p, theta)
        similar = tuple(j for j in peers if book.s.get(j, 0.0) >= self.min_similarity)
        return Choice(self._bounded(view, similar, p, lot), theta, effective)

    def _ranked(self, view: View, p: dict[PeerId, float], lot: dict[PeerId, int]) -> list[PeerId]:
        """The most probable first, ties by lot; or in the order of a draw by p without
        replacement."""
        if self.cut == "top":
            return sorted(p, key=lambda j: (-p[j], lot[j]))
        noise = dict(
            zip(view.neighbours, view.rng.gumbel(size=len(view.neighbours)).tolist(), strict=True)
        )
        return sorted(p, key=lambda j: -math.log(max(p[j], 1e-300)) - noise[j])

    def _bounded(
        self, view: View, peers: tuple[PeerId, ...], p: dict[PeerId, float], lot: dict[PeerId, int]
    ) -> tuple[PeerId, ...]:
        """At least `min_neighbours` and at most `max_neighbours` (0: any number) by p, and
        `explore` others at random."""
        ranked = self._ranked(view, p, lot)
        missing = max(0, self.min_neighbours - len(peers))
        peers += tuple(j for j in ranked if j not in peers)[:missing]
        if self.max_neighbours and len(peers) > self.max_neighbours:
            peers = tuple(j for j in ranked if j in peers)[: self.max_neighbours]
        if self.explore:
            peers += sample(
                tuple(j for j in view.neighbours if j not in peers), self.explore, view.rng
            )
        return tuple(sorted(peers))

    def _weigh(
        self,
        view: View,
        book: Notebook,
        arrived: tuple[PeerId, ...],
        readings: dict[PeerId, Reading],
    ) -> Generator[Ask, Answers, tuple[Row, Notebook]]:
        """(iii): Boltzmann weights of the smoothed losses, uniform without iii, myself alone if
        nobody came."""
        few = not arrived or (self.protocol == "exchange" and len(arrived) < CROWD)
        crowd = (view.me, *arrived) if self.include_self or few else arrived
        if not arrived or "iii" not in self.ablation.split("+"):
            return spread(crowd), book
        before, after = yield from self._losses(view, crowd, readings)
        past = book.loss if self.smoothing == "across" else before
        smooth = {
            j: (1 - self.gamma) * after[j] + self.gamma * past.get(j, after[j]) for j in after
        }
        if self.smoothing == "across":
            book = replace(book, loss=book.loss | finite(smooth))
        return spread(confidence.boltzmann(smooth, self.temperature) or {view.me: 1.0}), book

    def _losses(
        self, view: View, crowd: tuple[PeerId, ...], readings: dict[PeerId, Reading]
    ) -> Generator[Ask, Answers, tuple[dict[PeerId, float], dict[PeerId, float]]]:
        """F before and after training, of all in the crowd who answer."""
        if self.loss_side == "requester":
            after = dict((yield Ask(Loss(), crowd)))
            if self.smoothing == "across" or self.gamma == 0:
                return {}, after
            mine = (yield Ask(Reported(), (view.me,)))[view.me]
            return dict.fromkeys(after, mine.before), after
        visited = {
            j: r.losses
            for j, r in readings.items()
            if r.losses is not None and self.protocol == "visit"
        }
        reported: dict[PeerId, Losses] = dict(
            (yield Ask(Reported(), tuple(j for j in crowd if j not in visited)))
        )
        both = reported | {j: losses for j, losses in visited.items() if j in crowd}
        before = {j: losses.before for j, losses in both.items()}
        before |= {
            j: r.losses.before for j, r in readings.items() if r.losses is not None and j in both
        }
        return before, {j: losses.after for j, losses in both.items()}

    def _known(self, view: View, book: Notebook) -> dict[PeerId, float]:
        return {j: book.s[j] for j in view.neighbours if j in book.s}

    def _notes(self, view: View, book: Notebook, choice: Choice) -> dict[str, float]:
        notes = {"theta": choice.theta, "effective": choice.effective}
        if s := list(self._known(view, book).values()):
            notes |= {
                "similarity_min": min(s),
                "similarity_mean": sum(s) / len(s),
                "similarity_max": max(s),
            }
        return notes
