"""All peers decide: their plans advance together, from ask to ask.

The asks that the plans have reached are computed as one list of jobs; then every plan is sent its
answers and goes on to its next ask. Plans that wait for models made for them alone (visits) go one
after the other, so that only one peer's visitors are in memory at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from amity.config import Config
from amity.core import (
    START,
    Answers,
    Ask,
    Decision,
    PeerId,
    Plan,
    Row,
    Share,
    Strategy,
    View,
    advance,
)
from amity.facts import Fact, ModelFact, Offer, Reported, Similarity
from amity.peer.mixing import check_decision
from amity.round.deciding import blaming, plain, view_of
from amity.round.evidence import Evidence
from amity.round.shard import Hosted, read_losses
from amity.simulate.crew import Crew
from amity.simulate.desk import LocalDesk, is_central
from amity.simulate.jobs import HostJob, Job, MeasureJob, OwnLossesJob
from amity.simulate.seat import Gallery, Seat
from amity.topology import Network

Near = Mapping[PeerId, tuple[PeerId, ...]]


@dataclass
class _Course:
    """One peer's plan on its way: what it asks now, and what it has decided in the end."""

    desk: LocalDesk
    plan: Plan
    view: View
    evidence: Evidence
    ask: Ask | None = None
    here: tuple[PeerId, ...] = ()
    decision: Decision | None = None

    @property
    def brings_models(self) -> bool:
        """Whether it asks for models that are made for it alone."""
        return self.ask is not None and self.ask.fact.sends and "model" in self.ask.fact.moves

    @property
    def decided(self) -> Decision:
        """Its decision, once it has one."""
        if self.decision is None:
            raise RuntimeError(f"{self.view.me} has not decided yet")
        return self.decision


@dataclass(frozen=True, kw_only=True)
class Lockstep:
    """The deciding of one round."""

    config: Config
    decider: Strategy
    seats: Mapping[PeerId, Seat]
    network: Network
    crew: Crew
    tell: Callable[[float], None]

    def decide(
        self, names: Sequence[PeerId], round: int, near: Near
    ) -> tuple[dict[PeerId, Decision], dict[PeerId, Share]]:
        """Every peer's decision; and the mixed models of peers that used models from visits, which
        exist nowhere else."""
        courses = {name: self._begin(name, round, near[name]) for name in names}
        mixed: dict[PeerId, Share] = {}
        for course in courses.values():
            self._advance(course, None)
        while going := [course for course in courses.values() if course.decision is None]:
            self.tell(1 - len(going) / len(courses))
            if others := [course for course in going if not course.brings_models]:
                self._answer(others)
                continue
            first = going[0]
            while first.decision is None:
                self._answer([first])
            mixed |= self._mix_brought(first)
        return {name: self._checked(course) for name, course in courses.items()}, mixed

    def _begin(self, name: PeerId, round: int, near: tuple[PeerId, ...]) -> _Course:
        seat, strategy = self.seats[name], self.config.strategy.instance
        view = view_of(
            self.config,
            me=name,
            round=round,
            neighbours=near,
            examples=seat.examples,
            card=seat.card,
            memory=seat.memory,
        )
        desk = LocalDesk(seat, near, self.seats, self.network, strategy)
        with blaming(self.config, view):  # what has no yield runs here
            plan = self.decider.decide(view, {name: 1.0})
        return _Course(desk, plan, view, Evidence(name, len(self.seats)))

    def _advance(self, course: _Course, answers: Answers | None) -> None:
        """To the next ask, or to the decision."""
        with blaming(self.config, course.view):
            step = advance(course.plan, answers)
            if isinstance(step, Decision):
                decision = plain(step)
                course.ask = None
                course.decision = replace(decision, why=course.evidence.why(decision))
            else:
                course.ask, course.here = step, tuple(course.desk.open(step))

    def _answer(self, courses: Sequence[_Course]) -> None:
        """Compute what these plans ask for, all together, and send them on."""
        asks = [(course, course.ask.fact) for course in courses if course.ask is not None]
        hosted = self._compute(asks)
        pairs = sum(len(course.here) for course, fact in asks if fact == Similarity())
        gallery = Gallery(self.seats, pairs) if pairs else None
        for course, fact in asks:
            mine = hosted.get(course.view.me, {})
            with blaming(self.config, course.view):
                answers = course.desk.read(fact, list(course.here), mine, gallery)
            self._advance(course, course.evidence.heard(fact, answers))

    # -- computing ---------------------------------------------------------------------------------

    def _compute(self, asks: Sequence[tuple[_Course, Fact]]) -> dict[PeerId, dict[PeerId, Offer]]:
        """Everything that the facts need and that is not known yet, as one list of jobs. Returns
        what hosts hand back, by guest and host."""
        jobs: list[Job] = []
        reporting: dict[PeerId, int] = {}
        for course, fact in asks:
            if fact.raw and course.here:
                course.desk.me.raw.add(fact.name_of(self.decider.card))
            if isinstance(fact, ModelFact):
                jobs += self._measuring(course, fact)
            elif isinstance(fact, Reported):
                silent = [j for j in course.here if self.seats[j].losses is None]
                reporting |= dict.fromkeys(silent, course.view.round)
            elif fact.sends:
                jobs += [self._hosting(course, fact, j) for j in course.here]
        jobs += [OwnLossesJob(at=j, round=reporting[j]) for j in sorted(reporting)]
        return self._take(jobs)

    def _hosting(self, course: _Course, fact: Fact, host: PeerId) -> HostJob:
        seat = self.seats[host]
        return HostJob(
            at=host,
            round=course.view.round,
            fact=fact,
            visitor=course.view.me,
            spec=self.decider.card,
            degree=seat.degree,
            allowed=seat.allowed,
        )

    def _measuring(self, course: _Course, fact: ModelFact) -> list[Job]:
        """Jobs for what is not known yet about models that have arrived. Models that came back from
        visits are only in this process, so they are measured at once."""
        me, t, brought = course.desk.me, course.view.round, course.desk.brought
        others = me.known.missing(fact, course.here)
        if not others:
            return []
        if brought.keys() & set(others):
            answered = self.crew.measure(me.name, fact, others, t, brought)
            me.pay(answered.forward, answered.backward)
            me.known.learn(fact, others, answered.values)
            return []
        return [MeasureJob(at=me.name, round=t, fact=fact, others=others)]

    def _take(self, jobs: Sequence[Job]) -> dict[PeerId, dict[PeerId, Offer]]:
        """Have jobs done, and take down their results."""
        hosted: dict[PeerId, dict[PeerId, Offer]] = {}
        for job, result in zip(jobs, self.crew.do(jobs, self.tell) if jobs else [], strict=True):
            seat = self.seats[job.at]
            seat.pay(result.forward, result.backward)
            if isinstance(job, HostJob) and isinstance(result, Hosted):
                seat.private += result.private
                guest = self.seats[job.visitor]
                shown = result.offer if guest is seat else seat.tampered(result.offer, guest)
                hosted.setdefault(job.visitor, {})[job.at] = shown
            elif isinstance(job, MeasureJob):
                seat.known.learn(job.fact, job.others, result.values)
            else:
                seat.losses = read_losses(result)
        return hosted

    # -- the end of a plan -------------------------------------------------------------------------

    def _checked(self, course: _Course) -> Decision:
        decision = course.decided
        check_decision(decision, course.view.me, course.desk.arrived, ())
        if is_central(self.config.strategy.instance) and course.view.neighbours:
            _book_server(self.seats[course.view.me], decision.row)
        return decision

    def _mix_brought(self, course: _Course) -> dict[PeerId, Share]:
        """The mixed model of a peer whose row uses models that came back from visits."""
        row, brought, me = course.decided.row, course.desk.brought, course.view.me
        course.desk.brought = {}
        check_decision(course.decided, me, course.desk.arrived, brought)
        if not brought.keys() & row.keys():
            return {}
        own = self.crew.shares(tuple(j for j in row if j not in brought and j != START), me)
        if START in row:
            own[START] = self.crew.start_shares((me,), course.view.round)[me]
        return {me: self.config.mixer.instance.mix(row, own | brought)}


def _book_server(me: Seat, row: Row) -> None:
    """With a server, a peer receives one model, and sends one if it is in the average."""
    me.ledger.model_in += me.share_bytes
    me.ledger.model_out += me.share_bytes if me.name in row else 0
