"""Amity: decentralized federated learning in which every peer finds its friends.

    result = amity.run(strategy="gossip", peers=10)         # one run: result.table, .figure()
    table = amity.compare(["local", "gossip", Mine(k=3)])   # on the same data and seeds

Everything that one needs is here, in groups; each name loads its module when it is first used, so
`import amity` costs nothing. What is not listed here may change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amity._version import __version__
from amity.lazy import public_name

if TYPE_CHECKING:
    from amity.choosing import Cardless
    from amity.config import Config, load
    from amity.core import (
        START,
        Answers,
        Ask,
        Band,
        Card,
        Context,
        Decision,
        Explains,
        Fit,
        Fitted,
        Gradient,
        Method,
        PeerId,
        Plan,
        Reference,
        Row,
        Share,
        State,
        Stats,
        Strategy,
        Traffic,
        Training,
        View,
        chain,
        spread,
        taken_from,
    )
    from amity.data import Dataset, datasets, partitions, shifts
    from amity.errors import AmityError
    from amity.events import (
        Diverged,
        Event,
        PeerEvent,
        Progress,
        RoundDone,
        RunDone,
        RunFailed,
        RunQueued,
        RunStarted,
        Sink,
    )
    from amity.facts import (
        Cosine,
        Degree,
        Distance,
        Distances,
        Fact,
        Groups,
        Labels,
        Likeness,
        Loss,
        MixtureLoss,
        ModelFact,
        Probe,
        Pull,
        Reported,
        Said,
        Similarity,
        Slope,
        Visit,
    )
    from amity.lab.compare import compare
    from amity.lab.comparison import Comparison
    from amity.lab.export import export
    from amity.lab.figures import export_figures
    from amity.lab.matrix import matrix
    from amity.lab.result import Result
    from amity.lab.run import resume, run
    from amity.lab.swarm import swarm
    from amity.lab.sweep import sweep
    from amity.lab.tries import Sweep
    from amity.lab.worlds import Worlds, compare_worlds
    from amity.learn.optimisers import Optimiser
    from amity.learn.schedules import Schedule
    from amity.peer.proxies import Proxy
    from amity.peer.proxy import CardSpec
    from amity.peer.trials import Agreement, Alone
    from amity.records import PeerRecord, Report, RoundRecord
    from amity.use.prediction import predict

RUNNING = {
    "amity.lab.run": ("run", "resume"),
    "amity.lab.compare": ("compare",),
    "amity.lab.sweep": ("sweep",),
    "amity.lab.tries": ("Sweep",),
    "amity.lab.swarm": ("swarm",),
    "amity.lab.worlds": ("compare_worlds", "Worlds"),
    "amity.lab.result": ("Result",),
    "amity.lab.comparison": ("Comparison",),
    "amity.lab.export": ("export",),
    "amity.lab.matrix": ("matrix",),
    "amity.use.prediction": ("predict",),
    "amity.lab.figures": ("export_figures",),
    "amity.config": ("Config", "load"),
    "amity.errors": ("AmityError",),
}
"""Running experiments, and what comes of them."""

STRATEGY_KIT = {
    "amity.core": (
        *("Ask", "Answers", "Card", "Decision", "PeerId", "Plan", "Reference", "Row", "START"),
        *("Explains", "Strategy", "View", "chain", "spread", "taken_from", "Traffic", "Band"),
    ),
    "amity.facts": (
        *("Cosine", "Degree", "Distance", "Distances", "Fact", "Groups", "Labels", "Likeness"),
        *("Loss", "MixtureLoss", "ModelFact", "Probe", "Pull", "Reported", "Said", "Similarity"),
        *("Slope", "Visit"),
    ),
    "amity.peer.trials": ("Agreement", "Alone"),
    "amity.choosing": ("Cardless",),
    "amity.peer.proxies": ("Proxy",),
    "amity.peer.proxy": ("CardSpec",),
}
"""Writing a strategy or a stage: what it sees, what it may ask, what it decides."""

METHOD_KIT = {
    "amity.core": (
        *("Context", "Fit", "Fitted", "Gradient", "Method", "Share", "State", "Stats", "Training"),
    ),
    "amity.learn.optimisers": ("Optimiser",),
    "amity.learn.schedules": ("Schedule",),
}
"""Writing a method: what is trained, shared and kept; an optimiser, a schedule of rates."""

DATA = {"amity.data": ("Dataset", "datasets", "partitions", "shifts")}
"""Own data."""

WATCHING = {
    "amity.events": (
        *("Event", "PeerEvent", "Progress", "RoundDone", "RunDone", "RunFailed", "RunQueued"),
        *("RunStarted", "Diverged", "Sink"),
    ),
    "amity.records": ("PeerRecord", "Report", "RoundRecord"),
}
"""Watching runs: events, records, sinks."""

_GROUPS = (RUNNING, STRATEGY_KIT, METHOD_KIT, DATA, WATCHING)
_HOME = {name: module for group in _GROUPS for module, names in group.items() for name in names}

__all__ = [
    "START",
    "Agreement",
    "Alone",
    "AmityError",
    "Answers",
    "Ask",
    "Band",
    "Card",
    "CardSpec",
    "Cardless",
    "Comparison",
    "Config",
    "Context",
    "Cosine",
    "Dataset",
    "Decision",
    "Degree",
    "Distance",
    "Distances",
    "Diverged",
    "Event",
    "Explains",
    "Fact",
    "Fit",
    "Fitted",
    "Gradient",
    "Groups",
    "Labels",
    "Likeness",
    "Loss",
    "Method",
    "MixtureLoss",
    "ModelFact",
    "Optimiser",
    "PeerEvent",
    "PeerId",
    "PeerRecord",
    "Plan",
    "Probe",
    "Progress",
    "Proxy",
    "Pull",
    "Reference",
    "Report",
    "Reported",
    "Result",
    "RoundDone",
    "RoundRecord",
    "Row",
    "RunDone",
    "RunFailed",
    "RunQueued",
    "RunStarted",
    "Said",
    "Schedule",
    "Share",
    "Similarity",
    "Sink",
    "Slope",
    "State",
    "Stats",
    "Strategy",
    "Sweep",
    "Traffic",
    "Training",
    "View",
    "Visit",
    "Worlds",
    "__version__",
    "chain",
    "compare",
    "compare_worlds",
    "datasets",
    "export",
    "export_figures",
    "load",
    "matrix",
    "partitions",
    "predict",
    "resume",
    "run",
    "shifts",
    "spread",
    "swarm",
    "sweep",
    "taken_from",
]


def __getattr__(name: str) -> Any:
    return public_name(__name__, _HOME, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
