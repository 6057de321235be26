"""The simulator: train -> card and share -> decide -> mix -> evaluate, for all peers.

During *decide* everyone sees one frozen snapshot of the round, so no result depends on the order of
peers. Peers stand in sorted order of their names everywhere. The plans of all peers advance in
lockstep: the asks that they have reached are computed together by the crew, then every plan is sent
its answers.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any

import torch

from amity.config import Config
from amity.core import Card, Decision, PeerId, Row, Share
from amity.data import Dataset, PeerData
from amity.errors import RunDirError
from amity.peer.peer import Peer, World
from amity.peer.privacy import uncovered
from amity.records import PeerRecord, Report, RoundRecord, Scores
from amity.round.build import bad_peers, deal_out, one_thread, settled, units_of
from amity.round.cards import Sketches
from amity.round.clock import Clock
from amity.round.deciding import carried
from amity.round.quality import choice_quality, gradient_metrics
from amity.round.recording import count_diverged, is_due, means, record_of
from amity.round.shard import Shard, Trained
from amity.round.spending import Budget
from amity.round.stopping import judged_by, refuse_blind
from amity.round.truth import Friendship
from amity.simulate.crew import Crew, quiet
from amity.simulate.desk import is_central
from amity.simulate.finding import Circles
from amity.simulate.jobs import (
    EvaluateJob,
    GradientJob,
    SettleAloneJob,
    SettleJob,
    TrainAloneJob,
    TrainJob,
    WorkOnJob,
)
from amity.simulate.lockstep import Lockstep, Near
from amity.simulate.seat import Seat, let_fakers_look
from amity.topology import Network, peer_names


class Simulation:
    """All peers of a run. `round()` advances by one round; `snapshots`/`restore` are what a
    checkpoint needs."""

    def __init__(
        self, config: Config, dataset: Dataset, names: tuple[PeerId, ...] | None = None
    ) -> None:
        dataset = replace(dataset, pixels=dataset.pixels.to(config.device))
        self.config = config = settled(config, dataset)
        self.names = tuple(sorted(names or peer_names(config.peers)))
        self._enter(0)
        availability = config.topology.common
        self.network = Network(
            config.topology.instance,
            self.names,
            config.seed,
            availability.redraw,
            availability.online,
            availability.trace,
            availability.drop,
            availability.speed,
        )
        self.finding = Circles.of(config, self.network)
        with one_thread():
            self.data: dict[PeerId, PeerData] = deal_out(config, dataset, self.names)
            self.crew: Crew = config.engine.instance.crew(config, dataset, self.names, self.data)
        self.units = units_of(config, self.data)
        refuse_blind(config.stop, self.data)
        self.seats = {
            name: Seat(name=name, examples=len(data.train), labels=data.labels, group=data.group)
            for name, data in self.data.items()
        }
        self.friendship = Friendship.of(self.data, config.eval.friend)
        self.attackers = bad_peers(config, self.names)
        for name in self.attackers:
            self.seats[name].attack = config.attack.instance
        for seat in self.seats.values():
            seat.budget = Budget.of(config, seat.examples)
        self.next_round = 0
        self.steps = 0
        """Gradient steps of the last round's training, of all peers, as they were done."""
        self.on_part: Callable[[int, float], None] | None = None
        self.on_trained: Callable[[int], None] | None = None
        """Called after the training of a round, before anybody decides: to look at what cards would
        tell."""
        self._told = time.monotonic()

    def _enter(self, t: int) -> None:
        """Stand in the phase of a round: what decides may have changed, by plan."""
        self._since, self._now = next(p for p in reversed(self.config.phases) if p[0] <= t)
        self.strategy, self.decider = self._now.strategy.instance, self._now.decider
        self._sketches = Sketches(self.decider.card)

    def __enter__(self) -> Simulation:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the workers, if there are any."""
        self.crew.close()

    @property
    def shard(self) -> Shard:
        """All peers, where they are in this process."""
        shard: Shard = self.crew.shard  # type: ignore[attr-defined]
        return shard

    @property
    def peers(self) -> dict[PeerId, Peer]:
        return self.shard.peers

    def final_model(self, name: PeerId) -> torch.Tensor:
        """The model of a peer that is evaluated. It is computed with its group, so that the bits
        are the same."""
        unit = next(unit for unit in self.units if name in unit)
        return self.shard.final_models(unit, self.peers[name].round)[unit.index(name)]

    @property
    def world(self) -> World:
        return self.shard.world

    def _tell(self, t: int, low: float, high: float) -> Callable[[float], None]:
        """Say how far the round is, at most once a second."""

        def tell(share: float) -> None:
            if self.on_part is not None and time.monotonic() - self._told > 1:
                self._told = time.monotonic()
                self.on_part(t, low + (high - low) * share)

        return tell

    # -- one round ---------------------------------------------------------------------------------

    def round(self) -> Report:
        """Everything of one round, measured."""
        with one_thread():
            return self._round(self.next_round)

    def _round(self, t: int) -> Report:
        clock = Clock()
        if self.config.at(t) is not self._now:
            self._enter(t)
        for seat in self.seats.values() if t == self._since else ():
            seat.memory = carried(self.config, seat.memory, t - 1, t)
        near = self._near(t)
        self._train(t, near)
        if self.on_trained is not None:
            self.on_trained(t)
        clock.lap("train")
        ready = self.network.ready(t)
        decided, brought = self._lockstep(t).decide([n for n in self.names if n in ready], t, near)
        if self.finding is not None:
            self.finding.exchange(t, self.seats)
        clock.lap("select")
        self._mix(t, decided, brought)
        clock.lap("mix")
        decided = {
            name: decided.get(name, Decision({name: 1.0}, seat.memory))
            for name, seat in self.seats.items()
        }
        self.next_round = t + 1
        scores = self._alone(t, self._evaluate(t))
        records = {
            name: self._record(name, t, len(near[name]), decided[name], scores.get(name, Scores()))
            for name in self.names
        }
        network = self._of_network(t, decided, near, records)
        clock.lap("evaluate")
        rows = {name: decision.row for name, decision in decided.items()}
        why = {name: decision.why for name, decision in decided.items() if decision.why}
        return Report(
            round=t, peers=records, rows=rows, network=network, seconds=clock.laps, why=why
        )

    def _near(self, t: int) -> Near:
        """Everyone's neighbours: as the graph says, or as they were found."""
        central = is_central(self.strategy)
        if self.finding is None or central:
            return self.network.neighbours(t, everyone=central)
        return self.finding.near(t)

    def _lockstep(self, t: int) -> Lockstep:
        return Lockstep(
            config=self._now,
            decider=self.decider,
            seats=self.seats,
            network=self.network,
            crew=self.crew,
            tell=self._tell(t, 0.4, 0.7),
        )

    def _train(self, t: int, near: Near) -> None:
        for name, seat in self.seats.items():
            seat.begin(t, len(near[name]))
        self.steps = 0
        ready, jobs = self.network.ready(t), []
        units = [tuple(name for name in unit if name in ready) for unit in self.units]
        units = [unit for unit in units if unit]
        for unit in units:
            allowed = tuple(self.seats[name].allowed for name in unit)
            spec = self._sketches.wanted(unit)
            jobs.append(TrainJob(at=unit[0], round=t, unit=unit, spec=spec, allowed=allowed))
        busy = [name for name in self.names if name not in ready]
        for name in busy:
            self.seats[name].train_loss, self.seats[name].diverged = math.nan, False
        if busy:
            self.crew.do([WorkOnJob(at=name, round=t) for name in busy], quiet)
        results = self.crew.do(jobs, self._tell(t, 0, 0.4))
        for unit, trained in zip(units, results, strict=True):
            for name, mine in zip(unit, trained, strict=True):
                self.steps += mine.steps
                self._seated(self.seats[name], mine)
        if self._sketches.once:
            let_fakers_look(self.seats, near)

    def _seated(self, seat: Seat, trained: Trained) -> None:
        """Take down the results of a training. A sketch that never changes is computed again after
        a resume, and not counted."""
        backward, forward = trained.backward, trained.forward
        if self._sketches.lasting and seat.round > self._first_shown(seat.name):
            forward, backward = forward - trained.sketching[0], backward - trained.sketching[1]
        seat.pay(forward, backward)
        seat.private += trained.private
        seat.train_loss, seat.diverged = trained.loss, trained.diverged
        seat.share_bytes, seat.start_bytes = trained.share_bytes, trained.start_bytes
        seat.card = self._sketches.card(
            trained.sketch,
            peer=seat.name,
            round=seat.round,
            examples=seat.examples,
            degree=seat.degree,
        )

    def _first_shown(self, name: PeerId) -> int:
        """The round of a peer's first card, as things are decided now."""
        pace = self.network.pace
        return self._since if pace is None else max(self._since, pace.first(name))

    def _mix(
        self, t: int, decided: Mapping[PeerId, Decision], mixed: Mapping[PeerId, Share]
    ) -> None:
        """Every peer's next start, and its notebook."""
        jobs = []
        for name, decision in decided.items():
            if name in mixed:
                self.crew.absorb(name, mixed[name], t)
            else:
                jobs.append(SettleJob(at=name, round=t, row=decision.row, head=decision.head))
            self.seats[name].memory = decision.memory
        self.crew.do(jobs, self._tell(t, 0.7, 0.7))

    # -- measuring ---------------------------------------------------------------------------------

    def _evaluate(self, t: int) -> dict[PeerId, Scores]:
        """Test accuracies, in rounds in which they are measured."""
        if not is_due(t, self.config.horizon(t), self.config.eval.every):
            return {}
        jobs = [EvaluateJob(at=unit[0], round=t, unit=unit) for unit in self.units]
        results = self.crew.do(jobs, self._tell(t, 0.7, 1))
        return {
            name: score
            for unit, scores in zip(self.units, results, strict=True)
            for name, score in zip(unit, scores, strict=True)
        }

    def _alone(self, t: int, scores: dict[PeerId, Scores]) -> dict[PeerId, Scores]:
        """The same, with what shadows reach that learn from nobody."""
        every = self.config.eval.shadow
        if not every:
            return scores
        turn = t % every == 0
        train = [TrainAloneJob(at=unit[0], round=t, unit=unit) for unit in self.units]
        for unit, trained in zip(
            self.units, self.crew.do(train, quiet) if turn else (), strict=turn
        ):
            for name, mine in zip(unit, trained, strict=True):
                self.seats[name].pay(mine.forward, mine.backward)
        settle = [
            SettleAloneJob(at=unit[0], round=t, unit=unit, trained=turn, due=bool(scores))
            for unit in self.units
        ]
        found = zip(self.units, self.crew.do(settle, quiet), strict=True)
        reached = {name: one for unit, part in found for name, one in zip(unit, part, strict=True)}
        return {name: s.beside(reached[name]) for name, s in scores.items()}

    def _record(
        self, name: PeerId, t: int, available: int, decision: Decision, scores: Scores
    ) -> PeerRecord:
        seat = self.seats[name]
        return record_of(
            peer=name,
            round=t,
            available=available,
            decision=decision,
            train_loss=seat.train_loss,
            diverged=seat.diverged,
            ledger=seat.ledger,
            scores=scores,
            attacker=name in self.attackers if self.attackers else None,
            **seat.budget.spent(seat.private),
        )

    def _of_network(
        self,
        t: int,
        decided: Mapping[PeerId, Decision],
        near: Near,
        records: Mapping[PeerId, PeerRecord],
    ) -> RoundRecord:
        rows = {name: decision.row for name, decision in decided.items()}
        quality = choice_quality(
            self.friendship,
            rows,
            {name: decision.scores for name, decision in decided.items()},
            near,
        )
        honest = [name for name in self.names if name not in self.attackers]
        record = RoundRecord(
            round=t,
            **means([records[name] for name in honest]),
            diverged=count_diverged(records.values()),
            validation=judged_by(self.config.stop, [records[name] for name in honest]),
            attackers_weight=self._of_attackers(rows, honest),
            **quality,
            **self._of_privacy(records),
            **self._of_time(t),
        )
        every = self.config.eval.gradients_every
        if every and is_due(t, self.config.horizon(t), every):
            record = self._with_theory(record, rows, near)
        return record

    def _of_time(self, t: int) -> dict[str, Any]:
        """The clock, where peers are not equally fast."""
        if self.network.pace is None:
            return {}
        tick = self.network.pace.tick(t)
        return {"clock": round(tick.clock, 9), "ready": len(tick.ready)}

    def _of_privacy(self, records: Mapping[PeerId, PeerRecord]) -> dict[str, Any]:
        """The largest ε of all peers, and what it does not cover."""
        mechanism = self.config.privacy.instance
        if not mechanism.about:
            return {}
        asked: set[str] = set().union(*(seat.raw for seat in self.seats.values()))
        epsilons = [record.epsilon for record in records.values() if record.epsilon is not None]
        stopped = sum(seat.allowed == 0 for seat in self.seats.values())
        return {
            "excluded": tuple(uncovered(mechanism, self.config.method.instance, asked)),
            "stopped": stopped if mechanism.budget else None,
            "epsilon": max(epsilons, default=None),
        }

    def _of_attackers(self, rows: Mapping[PeerId, Row], honest: list[PeerId]) -> float | None:
        """How much of their models honest peers take from attackers."""
        if not self.attackers or not honest:
            return None
        weight = sum(w for name in honest for j, w in rows[name].items() if j in self.attackers)
        return weight / len(honest)

    def _with_theory(
        self, record: RoundRecord, rows: Mapping[PeerId, Row], near: Near
    ) -> RoundRecord:
        """The theorem's quantities, for the part of the model that is shared. The gradients
        overwrite `trained`."""
        starts = self.crew.matrix("start")
        mean = torch.zeros_like(starts[0])
        for start in starts:
            mean.add_(start, alpha=1 / len(starts))
        shared = self.crew.offered()
        consensus = 0.0
        for start in starts:
            apart = start - mean
            part = apart if shared is None else apart[shared]
            consensus += float(part.square().sum()) / len(starts)
        self.crew.set_common(mean)
        jobs = [GradientJob(at=name, round=record.round) for name in self.names]
        self.crew.do(jobs, self._tell(record.round, 1, 1))
        gradients_MP = self.crew.matrix("trained")
        theory = gradient_metrics(self.names, gradients_MP, shared, rows, near)
        return replace(record, consensus=consensus, **theory)

    # -- checkpoints -------------------------------------------------------------------------------

    def snapshots(
        self, names: Collection[PeerId] | None = None
    ) -> Iterator[tuple[PeerId, dict[str, torch.Tensor]]]:
        """Tensors by peer, of these or of all. Together with config and notebooks, the rest of the
        run depends on nothing else."""
        return self.crew.snapshots([n for n in self.names if names is None or n in names])

    @property
    def memories(self) -> dict[PeerId, Any]:
        """Notebooks. With privacy or attackers that lie, also what the rest of the run must know
        about the rounds before."""
        return {name: self._remembered(seat) for name, seat in self.seats.items()}

    @property
    def _plain_memory(self) -> bool:
        plain = not self.attackers and not self.config.privacy.instance.about
        return plain and self.finding is None

    def _remembered(self, seat: Seat) -> Any:
        if self._plain_memory:
            return seat.memory
        card = None if seat.card is None else seat.card.sketch.tolist()
        circle = {} if self.finding is None else {"circle": self.finding.remembered(seat.name)}
        return circle | {
            "memory": seat.memory,
            "private": seat.private,
            "card": card if self.attackers else None,
        }

    def _remember(self, seat: Seat, found: Any) -> None:
        if self._plain_memory:
            seat.memory = found
            return
        seat.memory, seat.private = found["memory"], int(found["private"])
        if self.finding is not None:
            self.finding.remember(seat.name, found["circle"])
        if found["card"] is not None:
            spec = self.config.at(seat.round).decider.card
            kind = torch.int8 if spec is not None and spec.bits == 1 else torch.float32
            sketch = torch.tensor(found["card"], dtype=kind)
            seat.card = Card(seat.name, seat.round, seat.examples, seat.degree, sketch)

    def rewind(self) -> None:
        """Go back to before the first round, with a complete crew."""
        self.crew.rebuild()
        for seat in self.seats.values():
            seat.memory, seat.private, seat.card = {}, 0, None
        if self.finding is not None:
            self.finding.begin()
        self._enter(0)
        self.next_round = 0

    def restore(
        self,
        round: int,
        tensors: Callable[[PeerId], dict[str, torch.Tensor]],
        memories: Mapping[str, Any],
    ) -> None:
        """Go on as if the rounds before `round` had been run here."""
        for name in self.names:
            if name not in memories:
                raise RunDirError(
                    f"the checkpoint of round {round} knows nothing of {name}; it is not of"
                    " this run"
                )

        def checked(name: PeerId) -> dict[str, torch.Tensor]:
            found = tensors(name)
            if "start" not in found:
                raise RunDirError(
                    f"the checkpoint of round {round} has no model of {name}; it is not of this run"
                )
            return found

        self.crew.restore(round, checked)
        for name, seat in self.seats.items():
            seat.round = round - 1
            self._remember(seat, memories[name])
        self._enter(round)
        self.next_round = round
