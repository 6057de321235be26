"""The simulator: train -> card and share -> decide -> mix -> evaluate, for all peers.

During *decide* everyone sees one frozen snapshot of the round, so no result depends on the order of
peers. Peers stand in sorted order of their names everywhere. The plans of all peers advance in
lockstep: the asks that they have reached are computed together by the crew, then every plan is sent
its answers.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

import torch

from amity.config import Config
from amity.core import (
    START,
    Ask,
    Card,
    Decision,
    PeerId,
    Plan,
    Row,
    Share,
    View,
    advance,
    taken_from,
)
from amity.data import Dataset, split
from amity.data.samples import PeerData
from amity.errors import AmityError, RunDirError, StrategyError, brief, place_of
from amity.facts import Fact, ModelFact, Offer, Reported, Similarity
from amity.peer.mixing import check_row
from amity.peer.peer import Peer, World
from amity.peer.privacy import account_of, uncovered
from amity.rng import rng
from amity.round.build import bad_peers, one_thread, settled, units_of
from amity.round.quality import choice_quality, gradient_metrics
from amity.round.report import Clock, Report
from amity.round.shard import Hosted, Job, Shard, Trained, read_losses
from amity.simulate.crew import Crew
from amity.simulate.desk import Desk, Gallery, Seat, is_central
from amity.topology import Network, peer_names


@dataclass
class _Course:
    """One peer's plan on its way: what it asks now, and what it has decided in the end."""

    desk: Desk
    plan: Plan
    view: View
    ask: Ask | None = None
    here: tuple[PeerId, ...] = ()
    decision: Decision | None = None

    @property
    def brings_models(self) -> bool:
        """Whether it asks for models that are made for it alone."""
        return self.ask is not None and self.ask.fact.sends and "model" in self.ask.fact.moves


class Simulation:
    """All peers of a run. `round()` advances by one round; `snapshots`/`restore` are what a
    checkpoint needs."""

    def __init__(
        self, config: Config, dataset: Dataset, names: tuple[PeerId, ...] | None = None
    ) -> None:
        dataset = replace(dataset, pixels=dataset.pixels.to(config.device))
        self.config = config = settled(config, dataset)
        self.names = tuple(sorted(names or peer_names(config.peers)))
        self.strategy, self.decider = config.strategy.instance, config.decider
        availability = config.topology.common
        self.network = Network(
            config.topology.instance,
            self.names,
            config.seed,
            availability.redraw,
            availability.online,
            availability.trace,
            availability.drop,
        )
        with one_thread():
            self.data: dict[PeerId, PeerData] = split(
                dataset, config.partition.instance, self.names, config.seed
            )
            self.crew: Crew = config.engine.instance.crew(config, dataset, self.names, self.data)
        self.units = units_of(config, self.data)
        self.seats = {
            name: Seat(name, len(data.train), data.labels) for name, data in self.data.items()
        }
        self.attackers = bad_peers(config, self.names)
        for name in self.attackers:
            self.seats[name].attack = config.attack.instance
        self.accounts = {
            name: account_of(config.privacy.instance, seat.examples, config.train.batch)
            for name, seat in self.seats.items()
        }
        self.next_round = 0
        self.steps = 0
        """Gradient steps of the last round's training, of all peers, as they were done."""
        self.on_part: Callable[[int, float], None] | None = None
        self.on_trained: Callable[[int], None] | None = None
        """Called after the training of a round, before anybody decides: to look at what cards would
        tell."""
        self._told = time.monotonic()
        self._references: dict[PeerId, torch.Tensor] = {}
        """Sketches that never change (the gradient at the common reference): paid for once."""

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
        """What is evaluated of a peer, to the bit: computed with its group."""
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
        near = self.network.neighbours(t, everyone=self._central)
        self._train(t, near)
        if self.on_trained is not None:
            self.on_trained(t)
        clock.lap("train")
        decided, brought = self._decide(t, near)
        clock.lap("select")
        self._mix(t, decided, brought)
        clock.lap("mix")
        self.next_round = t + 1
        last = t + 1 == self.config.rounds
        measured = t % self.config.eval.every == 0 or last
        records = {
            name: self._record(name, t, len(near[name]), decided[name]) for name in self.names
        }
        if measured:
            jobs = [Job("evaluate", unit[0], (unit, t)) for unit in self.units]
            for unit, scores in zip(
                self.units, self.crew.do(jobs, self._tell(t, 0.7, 1)), strict=True
            ):
                for name, score in zip(unit, scores, strict=True):
                    records[name] |= score
        rows = {name: decision.row for name, decision in decided.items()}
        quality = choice_quality(
            {name: seat.labels for name, seat in self.seats.items()},
            self.config.eval.friend,
            rows,
            {name: decision.scores for name, decision in decided.items()},
            near,
        )
        network: dict[str, Any] = {"round": t, **quality}
        every = self.config.eval.gradients_every
        if every and (t % every == 0 or last):
            network |= self._theory(t, rows, near)
        network |= self._of_attackers(rows) | self._of_privacy(records)
        if measured:
            judged = [name for name in self.names if name not in self.attackers]
            network["accuracy"] = sum(records[name]["accuracy"] for name in judged) / len(judged)
        clock.lap("evaluate")
        return Report(t, records, rows, network, clock.laps)

    @property
    def _central(self) -> bool:
        return is_central(self.strategy)

    def _train(self, t: int, near: Mapping[PeerId, tuple[PeerId, ...]]) -> None:
        for name, seat in self.seats.items():
            seat.begin(t, len(near[name]))
        self.steps = 0
        spec = self.decider.card
        lasting = spec is not None and spec.proxy == "grad_ref"
        asked = None if lasting and self._references else spec
        jobs = [
            Job(
                "train",
                unit[0],
                (unit, t, asked, tuple(self._allowed(self.seats[name]) for name in unit)),
            )
            for unit in self.units
        ]
        for unit, results in zip(
            self.units, self.crew.do(jobs, self._tell(t, 0, 0.4)), strict=True
        ):
            for name, trained in zip(unit, results, strict=True):
                self.steps += trained.steps
                self._seated(self.seats[name], trained, lasting)

    def _seated(self, seat: Seat, trained: Trained, lasting: bool) -> None:
        """Take down what a training said of itself. A lasting sketch is computed again after a
        resume, for nothing."""
        backward, forward = trained.backward, trained.forward
        if lasting and trained.sketch is not None and seat.round > 0:
            examples = self.config.facts.examples
            used = min(examples, seat.examples) if examples else seat.examples
            backward, forward = backward - used, forward - used
        seat.pay(forward, backward)
        seat.private += trained.private
        seat.train_loss, seat.share_bytes, seat.start_bytes = (
            trained.loss,
            trained.share_bytes,
            trained.start_bytes,
        )
        sketch = None if trained.sketch is None else torch.tensor(trained.sketch)
        if lasting:
            sketch = (
                self._references.setdefault(seat.name, sketch)
                if sketch is not None
                else self._references[seat.name]
            )
        if sketch is not None:
            seat.card = Card(seat.name, seat.round, seat.examples, seat.degree, sketch)

    def _allowed(self, seat: Seat) -> int | None:
        """Private steps that the budget still has room for."""
        account = self.accounts[seat.name]
        limit = None if account is None else account.limit
        return None if limit is None else max(0, limit - seat.private)

    # -- deciding ----------------------------------------------------------------------------------

    def _decide(
        self, t: int, near: Mapping[PeerId, tuple[PeerId, ...]]
    ) -> tuple[dict[PeerId, Decision], dict[PeerId, Share]]:
        """Every peer's decision; and the mixed models of those who had visitors' models, which
        exist nowhere else."""
        courses = {name: self._begin(name, t, near[name]) for name in self.names}
        mixed: dict[PeerId, Share] = {}
        tell = self._tell(t, 0.4, 0.7)
        for course in courses.values():
            self._advance(course, None)
        while going := [course for course in courses.values() if course.decision is None]:
            tell(1 - len(going) / len(courses))
            visiting = [course for course in going if course.brings_models]
            if others := [course for course in going if not course.brings_models]:
                self._answer(others, tell)
                continue
            while (
                visiting[0].decision is None
            ):  # one at a time: only this peer's visitors are in memory at once
                self._answer(visiting[:1], tell)
            mixed |= self._mix_brought(visiting[0])
        return {name: self._checked(course) for name, course in courses.items()}, mixed

    def _begin(self, name: PeerId, t: int, near: tuple[PeerId, ...]) -> _Course:
        seat, config = self.seats[name], self.config
        view = View(
            name,
            t,
            config.rounds,
            near,
            seat.examples,
            seat.card,
            rng(config.seed, "decide", t, name),
            rng(config.seed, "common", t),
            seat.memory,
        )
        desk = Desk(seat, near, self.seats, self.network, self.strategy)
        return _Course(desk, self.decider.decide(view, {name: 1.0}), view)

    def _advance(self, course: _Course, answers: Mapping[PeerId, Any] | None) -> None:
        """To the next ask, or to the decision; whatever a strategy does wrong is said of it, its
        peer and its round."""
        with self._blaming(course.view):
            step = advance(course.plan, answers)
            if isinstance(step, Decision):
                course.ask, course.decision = None, self._plain(step, course.view.round)
            else:
                course.ask, course.here = step, tuple(course.desk.open(step))

    @contextmanager
    def _blaming(self, view: View) -> Iterator[None]:
        try:
            yield
        except AmityError:
            raise
        except (Exception, SystemExit) as error:  # a strategy may be anybody's code
            where = f"strategy {self.config.label}, {view.me}, round {view.round}"
            raise StrategyError(f"{where}: {brief(error)}{place_of(error)}") from error

    @staticmethod
    def _plain(decision: Decision, round: int) -> Decision:
        """One decision in plain numbers."""
        row = {str(j): float(weight) for j, weight in decision.row.items()}
        notes = {str(key): float(value) for key, value in decision.notes.items()}
        if round < 2 and json.loads(json.dumps(decision.memory)) != decision.memory:
            raise TypeError(
                "memory must be plain JSON data: dicts with text keys, lists, numbers, text"
            )
        return Decision(row, decision.memory, notes, decision.scores)

    def _answer(self, courses: Sequence[_Course], tell: Callable[[float], None]) -> None:
        """Compute what these plans ask for, all together, and send them on."""
        asks = [(course, course.ask.fact) for course in courses if course.ask is not None]
        hosted = self._compute(asks, tell)
        pairs = sum(len(course.here) for course, fact in asks if fact == Similarity())
        gallery = Gallery(self.seats, pairs) if pairs else None
        for course, fact in asks:
            with self._blaming(course.view):
                answers = course.desk.read(
                    fact, list(course.here), hosted.get(course.view.me, {}), gallery
                )
            self._advance(course, answers)

    def _compute(
        self, asks: Sequence[tuple[_Course, Fact]], tell: Callable[[float], None]
    ) -> dict[PeerId, dict[PeerId, Offer]]:
        """Everything that the facts need and that is not known yet, as one list of jobs."""
        jobs: list[Job] = []
        reporting: set[PeerId] = set()
        for course, fact in asks:
            me, t = course.desk.me, course.view.round
            me.raw |= {fact.name_of(self.decider.card)} if fact.raw and course.here else set()
            if isinstance(fact, ModelFact):
                jobs += self._measuring(course, fact)
            elif isinstance(fact, Reported):
                reporting |= {j for j in course.here if self.seats[j].losses is None}
            elif fact.sends:
                spec = self.decider.card
                for j in course.here:
                    host = self.seats[j]
                    args = (j, fact, me.name, spec, host.degree, self._allowed(host), t)
                    jobs.append(Job("host", j, args, guests=(me.name,)))
        jobs += [Job("own_losses", j, (j, self.seats[j].round)) for j in sorted(reporting)]
        hosted: dict[PeerId, dict[PeerId, Offer]] = {}
        for job, result in zip(jobs, self.crew.do(jobs, tell) if jobs else [], strict=True):
            seat = self.seats[job.at]
            seat.pay(result.forward, result.backward)
            if isinstance(result, Hosted):
                seat.private += result.private
                guest = self.seats[job.guests[0]]
                hosted.setdefault(guest.name, {})[job.at] = (
                    result.offer if guest is seat else seat.tampered(result.offer, guest)
                )
            elif job.verb == "measure":
                _, fact, others, _ = job.args
                seat.known |= {
                    (fact, j): value for j, value in zip(others, result.values, strict=True)
                }
            else:
                seat.losses = read_losses(result)
        return hosted

    def _measuring(self, course: _Course, fact: ModelFact) -> list[Job]:
        """What is not known yet of the models that are here. Those that came back from visits are
        in this process only, so that they are measured at once."""
        me, t, brought = course.desk.me, course.view.round, course.desk.brought
        others = tuple(j for j in course.here if fact.together or (fact, j) not in me.known)
        if not others:
            return []
        if brought.keys() & set(others):
            answered = self.crew.measure(me.name, fact, others, t, brought)
            me.pay(answered.forward, answered.backward)
            me.known |= {(fact, j): value for j, value in zip(others, answered.values, strict=True)}
            return []
        return [
            Job(
                "measure",
                me.name,
                (me.name, fact, others, t),
                needs=tuple(j for j in others if j != START),
            )
        ]

    def _checked(self, course: _Course) -> Decision:
        assert course.decision is not None  # noqa: S101
        check_row(course.decision.row, course.view.me, course.desk.arrived)
        if self._central and course.view.neighbours:
            self._book_server(self.seats[course.view.me], course.decision.row)
        return course.decision

    def _book_server(self, me: Seat, row: Row) -> None:
        """With a server, a peer receives one model, and sends one if it is in the average."""
        me.ledger.model_in += me.share_bytes
        me.ledger.model_out += me.share_bytes if me.name in row else 0

    # -- mixing ------------------------------------------------------------------------------------

    def _mix_brought(self, course: _Course) -> dict[PeerId, Share]:
        """The mixed model of a peer whose row stands on models that came back from visits."""
        assert course.decision is not None  # noqa: S101
        row, brought, me = course.decision.row, course.desk.brought, course.view.me
        course.desk.brought = {}
        check_row(row, me, course.desk.arrived)
        if not brought.keys() & row.keys():
            return {}
        own = self.crew.shares(tuple(j for j in row if j not in brought and j != START), me)
        if START in row:
            own[START] = self.crew.start_shares((me,), course.view.round)[me]
        return {me: self.config.mixer.instance.mix(row, own | brought)}

    def _mix(
        self, t: int, decided: Mapping[PeerId, Decision], mixed: Mapping[PeerId, Share]
    ) -> None:
        """Every peer's next start, and its notebook."""
        jobs = []
        for name, decision in decided.items():
            if name in mixed:
                self.crew.absorb(name, mixed[name], t)
            else:
                jobs.append(
                    Job(
                        "settle",
                        name,
                        (name, decision.row, t),
                        needs=tuple(j for j in decision.row if j != START),
                    )
                )
            self.seats[name].memory = decision.memory
        self.crew.do(jobs, self._tell(t, 0.7, 0.7))

    # -- measuring ---------------------------------------------------------------------------------

    def _record(self, name: PeerId, t: int, available: int, decision: Decision) -> dict[str, Any]:
        seat = self.seats[name]
        taken = taken_from(decision.row, name)
        return {
            **decision.notes,
            "round": t,
            "peer": name,
            "available": available,
            "taken": len(taken),
            "self_weight": decision.row.get(name, 0.0),
            "train_loss": seat.train_loss,
            **seat.ledger.as_dict(),
            **({"attacker": name in self.attackers} if self.attackers else {}),
            **self._spent(seat),
        }

    def _spent(self, seat: Seat) -> dict[str, Any]:
        """What privacy has cost this peer so far; no ε where nothing was noised (it would be
        infinite)."""
        account = self.accounts[seat.name]
        if account is None:
            return {}
        spent: dict[str, Any] = {"private_steps": seat.private}
        return spent | (
            {"epsilon": account.epsilon(seat.private)} if account.mechanism.sigma else {}
        )

    def _of_privacy(self, records: Mapping[PeerId, Mapping[str, Any]]) -> dict[str, Any]:
        """The largest ε of all peers, and what it does not cover."""
        mechanism = self.config.privacy.instance
        if not mechanism.about:
            return {}
        asked = set().union(*(seat.raw for seat in self.seats.values()))
        epsilons = [record["epsilon"] for record in records.values() if "epsilon" in record]
        found: dict[str, Any] = {
            "excluded": uncovered(mechanism, self.config.method.instance, asked)
        }
        if mechanism.budget:
            found["stopped"] = sum(self._allowed(seat) == 0 for seat in self.seats.values())
        return found | ({"epsilon": max(epsilons)} if epsilons else {})

    def _of_attackers(self, rows: Mapping[PeerId, Row]) -> dict[str, Any]:
        """How much of their models honest peers take from attackers."""
        honest = [name for name in self.names if name not in self.attackers]
        if not self.attackers or not honest:
            return {}
        weight = sum(w for name in honest for j, w in rows[name].items() if j in self.attackers)
        return {"attackers_weight": weight / len(honest)}

    def _theory(
        self, t: int, rows: Mapping[PeerId, Row], near: Mapping[PeerId, tuple[PeerId, ...]]
    ) -> dict[str, float]:
        """The theorem's quantities, of the part of the model that is shared. The gradients take the
        place of `trained`."""
        starts = self.crew.matrix("start")
        mean = torch.zeros_like(starts[0])
        for start in starts:
            mean.add_(start, alpha=1 / len(starts))
        shared = self.crew.offered()
        consensus = 0.0
        for start in starts:
            apart = start - mean
            consensus += float((apart if shared is None else apart[shared]).square().sum()) / len(
                starts
            )
        self.crew.set_common(mean)
        self.crew.do([Job("gradient", name, (name,)) for name in self.names], self._tell(t, 1, 1))
        gradients_MP = self.crew.matrix("trained")
        return gradient_metrics(self.names, gradients_MP, shared, rows, near) | {
            "consensus": consensus
        }

    # -- checkpoints -------------------------------------------------------------------------------

    def snapshots(self) -> Iterator[tuple[PeerId, dict[str, torch.Tensor]]]:
        """Tensors by peer: with config and notebooks, all that the rest of the run depends on."""
        return self.crew.snapshots()

    @property
    def memories(self) -> dict[PeerId, Any]:
        """Notebooks; with privacy or liars also what the rest of the run must know of the rounds
        before."""
        return {name: self._remembered(seat) for name, seat in self.seats.items()}

    @property
    def _plain_memory(self) -> bool:
        return not self.attackers and not self.config.privacy.instance.about

    def _remembered(self, seat: Seat) -> Any:
        if self._plain_memory:
            return seat.memory
        card = None if seat.card is None else seat.card.sketch.tolist()
        return {
            "memory": seat.memory,
            "private": seat.private,
            "card": card if self.attackers else None,
        }

    def _remember(self, seat: Seat, found: Any) -> None:
        if self._plain_memory:
            seat.memory = found
            return
        seat.memory, seat.private = found["memory"], int(found["private"])
        if found["card"] is not None:
            sketch = torch.tensor(found["card"], dtype=torch.float32)
            seat.card = Card(seat.name, seat.round, seat.examples, seat.degree, sketch)

    def rewind(self) -> None:
        """Before the first round, with a crew that is whole."""
        self.crew.rebuild()
        for seat in self.seats.values():
            seat.memory, seat.private, seat.card = {}, 0, None
        self._references.clear()
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
        self._references.clear()
        self.next_round = round
