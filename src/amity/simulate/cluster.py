"""The crew on a Ray cluster: a fixed pool of actors. Each has a shard of the peers, and keeps their
rows.

Only what a plan asks for moves. If a job on another actor reads a model, the actor that has it puts
it into the object store, once per round. Rows are mixed where their peer lives. Every wait has a
limit. When an actor is lost, all actors are built again on the nodes that are left. The run goes
back to its last checkpoint and repeats the rounds since then, with the same bits.

Anyone who can reach Ray's ports can run code: keep a cluster inside your own network.
"""

from __future__ import annotations

import math
import os
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from amity.config import Config, resolve
from amity.core import START, PeerId, Share
from amity.data.samples import PeerData
from amity.errors import ConfigError, Failure
from amity.facts import ModelFact
from amity.processes import cores, keep_memory
from amity.round.build import deal_out, load_data, make_shard, units_of
from amity.round.shard import Answered, Shard
from amity.simulate.crew import CrewLost, TellPart
from amity.simulate.jobs import Job, TrainJob, perform
from amity.topology import peer_names

Packed = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any] | None]


def pack(share: Share) -> Packed:
    return share.theta.numpy(), None if share.mask is None else share.mask.numpy()


def unpack(packed: Packed) -> Share:
    theta, mask = packed
    return Share(_tensor(theta), None if mask is None else _tensor(mask))


def _tensor(array: np.ndarray[Any, Any]) -> torch.Tensor:
    """Arrays from the object store are read-only, but torch needs writable ones."""
    return torch.from_numpy(array if array.flags.writeable else array.copy())


class Place:
    """One actor: some peers, and the verbs of their shard."""

    def __init__(
        self, config_toml: str, names: tuple[PeerId, ...], mine: tuple[PeerId, ...]
    ) -> None:
        self._plan = (config_toml, names, mine)
        self.shard: Shard

    def build(self) -> None:
        """Not in the constructor, because Ray reports errors there as the death of the actor."""
        config_toml, names, mine = self._plan
        keep_memory()
        torch.set_num_threads(1)
        config = resolve([tomllib.loads(config_toml)])
        dataset = load_data(config)
        data = deal_out(config, dataset, names)
        self.shard = make_shard(
            config, dataset, mine, {name: data[name] for name in mine}, everyone=names
        )

    def do(
        self, jobs: Sequence[Job], lent: Sequence[PeerId], guests: Sequence[PeerId], *models: Packed
    ) -> list[Any]:
        """Do jobs. The models of peers on other actors that they read are given here: first the
        published ones, then those of the round's start."""
        shares = [unpack(model) for model in models]
        self.shard.lent = dict(zip(lent, shares[: len(lent)], strict=True))
        self.shard.lent_start = dict(zip(guests, shares[len(lent) :], strict=True))
        try:
            return [perform(job, self.shard) for job in jobs]
        finally:
            self.shard.lent, self.shard.lent_start = {}, {}

    def share(self, name: PeerId) -> Packed:
        return pack(self.shard.share_of(name))

    def mine(self, name: PeerId) -> Packed:
        return pack(self.shard.peers[name].mine)

    def start_share(self, name: PeerId, round: int) -> Packed:
        return pack(self.shard.start_shares([name], round)[name])

    def absorb(self, name: PeerId, mixed: Packed, round: int) -> None:
        self.shard.absorb(name, unpack(mixed), round)

    def measure(
        self,
        name: PeerId,
        fact: ModelFact,
        others: tuple[PeerId, ...],
        round: int,
        lent: Mapping[PeerId, Packed],
        brought: Mapping[PeerId, Packed],
    ) -> Answered:
        self.shard.lent = {j: unpack(model) for j, model in lent.items()}
        try:
            return self.shard.measure(
                name, fact, others, round, {j: unpack(model) for j, model in brought.items()}
            )
        finally:
            self.shard.lent = {}

    def rows(self, which: str) -> np.ndarray[Any, Any]:
        rows: np.ndarray[Any, Any] = getattr(self.shard.matrices, which).numpy()
        return rows

    def set_common(self, vector: np.ndarray[Any, Any]) -> None:
        self.shard.matrices.common.copy_(torch.from_numpy(np.array(vector)))

    def snapshot(self, name: PeerId) -> dict[str, np.ndarray[Any, Any]]:
        return {key: value.numpy() for key, value in self.shard.peers[name].snapshot().items()}

    def restore(self, name: PeerId, round: int, tensors: dict[str, np.ndarray[Any, Any]]) -> None:
        self.shard.peers[name].resume(
            round, {key: torch.from_numpy(np.array(value)) for key, value in tensors.items()}
        )


class RayCrew:
    """Hands jobs to the actors where their peers live."""

    def __init__(
        self,
        config: Config,
        names: tuple[PeerId, ...],
        data: Mapping[PeerId, PeerData],
        address: str,
        actors: int,
        timeout: float,
    ) -> None:
        if names != peer_names(len(names)):
            raise ConfigError("engine ray: peers must have their usual names")
        if config.device != "cpu":
            raise ConfigError(
                f"engine ray: works on CPUs, got device={config.device}; use engine=local"
            )
        self.ray = _connect(address)
        self.config, self.names, self.actors, self.timeout = config, names, actors, timeout
        self.units = units_of(config, data)
        self._places: list[Any] = []
        self._home: dict[PeerId, int] = {}
        self._published: dict[PeerId, Any] = {}
        """References to models in the object store, of this round."""
        if actors > self._cpus():
            raise ConfigError(
                f"engine.actors: {actors} actors need a CPU each, and the cluster has"
                f" {self._cpus()}"
            )
        self.rebuild()

    # -- the pool ----------------------------------------------------------------------------------

    def rebuild(self) -> None:
        """A new pool on the nodes that are available, with all peers as before their first
        round."""
        for attempt in range(3):
            self._kill()
            try:
                self._build()
            except CrewLost:
                if attempt == 2:
                    raise
                time.sleep(2)  # the cluster may not have noticed yet that a node is gone
            else:
                return

    def _build(self) -> None:
        ray, free = self.ray, self._cpus()
        count = max(1, min(self.actors or free, free, len(self.units)))
        options = {"num_cpus": 1, "max_restarts": 0, "scheduling_strategy": "SPREAD"}
        actor = ray.remote(**options)(Place)
        parts = [self.units[at::count] for at in range(count)]
        text = self.config.to_toml()
        for at, part in enumerate(parts):
            mine = tuple(sorted(name for unit in part for name in unit))
            self._home |= dict.fromkeys(mine, at)
            self._places.append(actor.remote(text, self.names, mine))
        self._get(
            [place.build.remote() for place in self._places],
            f"{count} actors with a CPU each ({free} in the cluster)",
        )

    def _cpus(self) -> int:
        alive = [node for node in self.ray.nodes() if node["Alive"]]
        return int(sum(node["Resources"].get("CPU", 0) for node in alive))

    def _kill(self) -> None:
        for place in self._places:
            self.ray.kill(place)
        self._places, self._home, self._published = [], {}, {}

    def _get(self, references: Sequence[Any], what: str) -> list[Any]:
        """The values. If they do not come in time, the crew counts as lost."""
        errors = self.ray.exceptions
        try:
            values: list[Any] = self.ray.get(list(references), timeout=self.timeout)
        except errors.GetTimeoutError:
            raise CrewLost(
                f"engine ray: no answer in {self.timeout:g} s from {what}; see engine.timeout,"
                " engine.actors"
            ) from None
        except (
            errors.RayActorError,
            errors.ObjectLostError,
            errors.WorkerCrashedError,
            errors.NodeDiedError,
        ) as error:
            raise CrewLost(f"engine ray: lost {what} ({type(error).__name__})") from None
        except errors.RayTaskError as error:
            cause = error.cause
            raise (
                cause if isinstance(cause, Exception) else Failure(f"engine ray: {what}: {cause}")
            ) from None
        return values

    # -- jobs --------------------------------------------------------------------------------------

    def do(self, jobs: Sequence[Job], tell: TellPart) -> list[Any]:
        if any(isinstance(job, TrainJob) for job in jobs):
            self._published = {}
        guests: dict[PeerId, Any] = {}
        # all exports before all jobs: an actor works in order, and must not wait for one that
        # waits for it
        for job in jobs:
            for name in job.needs:
                if self._home[name] != self._home[job.at]:
                    self._lend(name)
            guests |= {
                name: self._start_share(name, job.round)
                for name in job.guests
                if name not in guests
            }
        parcels = list(self._parcels(jobs))
        references = [self._submit(at, [jobs[k] for k in places], guests) for at, places in parcels]
        results: list[Any] = [None] * len(jobs)
        waiting, ended = list(references), 0
        deadline = time.monotonic() + self.timeout
        while waiting:
            ready, waiting = self.ray.wait(waiting, timeout=min(1.0, self.timeout))
            ended += len(ready)
            tell(ended / len(references))
            if ready:
                deadline = time.monotonic() + self.timeout
            elif time.monotonic() > deadline:
                raise CrewLost(
                    f"engine ray: no answer in {self.timeout:g} s from the actors at work"
                    f" ({jobs[0].verb})"
                )
        answers = self._get(references, f"the actors at work ({jobs[0].verb})") if jobs else []
        for (_, places), answer in zip(parcels, answers, strict=True):
            for k, value in zip(places, answer, strict=True):
                results[k] = value
        return results

    def _parcels(self, jobs: Sequence[Job]) -> Iterator[tuple[int, list[int]]]:
        """The jobs of one actor: one by one if models must travel, otherwise a few calls for all of
        them."""
        plain: dict[int, list[int]] = {}
        for k, job in enumerate(jobs):
            home = self._home[job.at]
            if all(self._home[name] == home for name in (*job.needs, *job.guests)):
                plain.setdefault(home, []).append(k)
            else:
                yield home, [k]
        for home, places in plain.items():
            size = math.ceil(len(places) / 8)
            for at in range(0, len(places), size):
                yield home, places[at : at + size]

    def _submit(self, at: int, jobs: Sequence[Job], guests: Mapping[PeerId, Any]) -> Any:
        lent = sorted({name for job in jobs for name in job.needs if self._home[name] != at})
        away = sorted({name for job in jobs for name in job.guests if self._home[name] != at})
        models = [*(self._published[name] for name in lent), *(guests[name] for name in away)]
        return self._places[at].do.remote(list(jobs), lent, away, *models)

    def _lend(self, name: PeerId) -> Any:
        if name not in self._published:
            self._published[name] = self._at(name).share.remote(name)
        return self._published[name]

    def _start_share(self, name: PeerId, round: int) -> Any:
        return self._at(name).start_share.remote(name, round)

    def _at(self, name: PeerId) -> Any:
        return self._places[self._home[name]]

    # -- vectors -----------------------------------------------------------------------------------

    def shares(self, names: tuple[PeerId, ...], me: PeerId = "") -> dict[PeerId, Share]:
        lent = [
            self._at(name).mine.remote(name) if name == me else self._lend(name) for name in names
        ]
        packed = self._get(lent, "published models")
        return {name: unpack(one) for name, one in zip(names, packed, strict=True)}

    def start_shares(self, names: tuple[PeerId, ...], round: int) -> dict[PeerId, Share]:
        packed = self._get(
            [self._start_share(name, round) for name in names], "models of the start"
        )
        return {name: unpack(one) for name, one in zip(names, packed, strict=True)}

    def absorb(self, name: PeerId, mixed: Share, round: int) -> None:
        self._get([self._at(name).absorb.remote(name, pack(mixed), round)], f"the actor of {name}")

    def measure(
        self,
        name: PeerId,
        fact: ModelFact,
        others: tuple[PeerId, ...],
        round: int,
        brought: Mapping[PeerId, Share],
    ) -> Answered:
        away = tuple(
            j
            for j in others
            if j not in brought and j != START and self._home[j] != self._home[name]
        )
        lent = {j: pack(share) for j, share in self.shares(away).items()}
        packed = {j: pack(share) for j, share in brought.items()}
        job = self._at(name).measure.remote(name, fact, others, round, lent, packed)
        answered: Answered = self._get([job], f"the actor of {name}")[0]
        return answered

    def offered(self) -> torch.Tensor | None:
        return self.shares(self.names[:1])[self.names[0]].mask

    def matrix(self, which: str) -> torch.Tensor:
        parts = self._get(
            [place.rows.remote(which) for place in self._places], f"all rows of {which}"
        )
        homes = [
            sorted(name for name, home in self._home.items() if home == at)
            for at in range(len(self._places))
        ]
        rows = {
            name: part[k]
            for names, part in zip(homes, parts, strict=True)
            for k, name in enumerate(names)
        }
        return torch.from_numpy(np.stack([rows[name] for name in self.names]))

    def set_common(self, vector: torch.Tensor) -> None:
        one = self.ray.put(vector.numpy())
        self._get([place.set_common.remote(one) for place in self._places], "all actors")

    def snapshots(
        self, names: Sequence[PeerId]
    ) -> Iterator[tuple[PeerId, dict[str, torch.Tensor]]]:
        for name in names:
            (arrays,) = self._get([self._at(name).snapshot.remote(name)], f"the actor of {name}")
            yield name, {key: torch.from_numpy(np.array(value)) for key, value in arrays.items()}

    def restore(self, round: int, tensors: Callable[[PeerId], dict[str, torch.Tensor]]) -> None:
        for name in self.names:
            arrays = {key: value.numpy() for key, value in tensors(name).items()}
            self._get([self._at(name).restore.remote(name, round, arrays)], f"the actor of {name}")

    def close(self) -> None:
        self._kill()


def _connect(address: str) -> Any:
    """Ray, connected to a cluster, or to one that is started here on this machine alone."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise ConfigError("engine ray: is not installed; pip install 'amity[cluster]'") from None
    if not ray.is_initialized():
        common: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        try:
            if address:
                ray.init(address=address, **common)
            else:
                ray.init(
                    num_cpus=cores(),
                    include_dashboard=False,
                    object_store_memory=_store_size(),
                    **common,
                )
        except (ConnectionError, OSError, ValueError, RuntimeError) as error:
            raise ConfigError(
                f"engine.address: no Ray cluster at {address!r} ({type(error).__name__})"
            ) from None
    return ray


def _store_size() -> int:
    """A fifth of the memory, as far as the system's shared memory allows: more would spill to
    disk."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    shared = os.statvfs("/dev/shm") if os.path.isdir("/dev/shm") else None  # noqa: S108
    room = shared.f_bavail * shared.f_frsize if shared else memory
    return max(100 << 20, min(memory // 5, room * 4 // 5))
