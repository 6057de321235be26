"""Digests of small runs: what a change that should not alter numbers must leave as they are, to the
bit.

    python tools/digests.py write before.json      # on the old code
    python tools/digests.py check before.json      # on the new code: names what differs, exit 1

A digest covers the final models (checkpoint), the rows (edges.jsonl) and all measured values
(metrics.jsonl and rounds.jsonl, by name, whatever their order). Digests belong to a machine:
another CPU may round differently.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import amity

TINY: dict[str, Any] = {
    "strategy": "afind+",
    "peers": 6,
    "rounds": 4,
    "partition": {"name": "pathological", "classes": 5, "samples": 10, "test": 30},
    "model": {"name": "mlp", "hidden": 12},
    "train": {"epochs": 1, "batch": 8, "lr": 0.05, "precision": "fp32"},
    "eval": {"gradients_every": 2},
    "engine": {"workers": 1},
}
STRATEGIES: list[Any] = [
    "local",
    "fedavg",
    "gossip",
    "pens",
    "federico",
    "fomo",
    "oracle",
    "afind",
    {"name": "afind+", "preset": "tuned"},
    {"name": "afind+", "preset": "wary"},
    {"name": "afind+", "preset": "paper"},
    {"name": "afind+", "preset": "literal"},
    {"name": "afind+", "preset": "paper", "proxy": "grad_asker"},
    {"name": "afind+", "proxy": "grad_ref"},
]
VISITS = {"name": "afind+", "preset": "literal"}
OTHERS: dict[str, dict[str, Any]] = {
    "ditto": {"strategy": "gossip", "method": "ditto"},
    "ditto, afind+": {"method": "ditto"},
    "dispfl": {"strategy": "gossip", "method": "dispfl"},
    "dispfl, visits": {"strategy": VISITS, "method": "dispfl"},
    "privacy of cards": {"privacy": {"name": "proxy", "sigma": 0.5}},
    "privacy of steps": {"strategy": "gossip", "privacy": {"name": "gradients", "sigma": 2.0}},
    "privacy with a budget": {
        "strategy": "gossip",
        "rounds": 6,
        "privacy": {"name": "gradients", "sigma": 2.0, "budget": 3.0},
    },
    "privacy of uploads": {"privacy": {"name": "upload", "sigma": 0.5}},
    "privacy of visits": {"strategy": VISITS, "privacy": {"name": "gradients", "sigma": 2.0}},
    "attack: labels": {"attack": {"name": "label_flip", "fraction": 0.34}},
    "attack: noise": {"strategy": "gossip", "attack": {"name": "noise", "fraction": 0.34}},
    "attack: cards": {"attack": {"name": "sketch_liar", "fraction": 0.34}},
    "attack: losses, visits": {
        "strategy": VISITS,
        "attack": {"name": "loss_liar", "fraction": 0.34},
    },
    "half offline": {"topology": {"online": 0.5}},
    "a third lost": {"topology": {"drop": 0.33}},
    "a third lost, visits": {"strategy": VISITS, "topology": {"drop": 0.33}},
    "ring, redrawn": {"strategy": "pens", "topology": {"name": "ring", "redraw": 1}},
    "stages": {"strategy": "gossip", "stages": "fomo,lossgate,normclip"},
    "stages, median": {"strategy": VISITS, "stages": "krum", "mixer": "median"},
    "validation": {"partition": {**TINY["partition"], "samples": 20, "validation": 0.2}},
    "workers": {"engine": {"workers": 2, "vectorise": "off", "group": 1}, "strategy": VISITS},
    "stacked": {"engine": {"workers": 1, "vectorise": "on", "group": 3}, "method": "head"},
    "a convolutional net": {
        "data": {"name": "synthetic", "shape": "1x16x16", "train": 600, "test": 200},
        "model": {"name": "fashion_cnn2"},
        "peers": 4,
        "rounds": 2,
        "method": "head",
    },
    "no sketch": {"strategy": {"name": "afind+", "sketch": 0}},
    "dirichlet": {"partition": {"name": "dirichlet", "alpha": 0.1, "samples": 20, "test": 30}},
}
LIVE = (
    "card_in",
    "card_out",
    "model_in",
    "model_out",
    "reply_in",
    "reply_out",
    "forward",
    "backward",
)
"""Books of real peers depend on who asks first; they are compared among themselves by the tests."""


def configs() -> Iterator[tuple[str, dict[str, Any]]]:
    for spec in STRATEGIES:
        label = spec if isinstance(spec, str) else ":".join(map(str, spec.values()))
        for method in ("finetune", "head"):
            yield f"{label} @ {method}", {**TINY, "strategy": spec, "method": method}
    for label, layer in OTHERS.items():
        yield label, {**TINY, **layer}


def digest(path: Path, without: tuple[str, ...] = ()) -> dict[str, str]:
    """Of everything that a run directory says of its results."""
    out = {}
    for name in ("metrics", "rounds", "edges"):
        lines = [json.loads(line) for line in (path / f"{name}.jsonl").read_text().splitlines()]
        kept = [{key: value for key, value in line.items() if key not in without} for line in lines]
        out[name] = hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()
    tensors = sorted((path / "checkpoint").glob("*.safetensors"))
    if tensors:
        out["models"] = hashlib.sha256(tensors[-1].read_bytes()).hexdigest()
    return out


def words(layers: dict[str, Any]) -> list[str]:
    out = []
    for key, value in layers.items():
        parts = (
            {f"{key}.{k}": v for k, v in value.items()} if isinstance(value, dict) else {key: value}
        )
        out += [f"{k}={v}" for k, v in parts.items()]
    return out


def killed_and_resumed(out: Path) -> dict[str, str]:
    """A run that is killed in the middle and goes on by `amity resume`."""
    command = [sys.executable, "-m", "amity"]
    keys = words({**TINY, "rounds": 40, "checkpoint.every": 5})
    process = subprocess.Popen([*command, "run", *keys, f"out={out}"], stdout=subprocess.DEVNULL)  # noqa: S603
    lines = out / "rounds.jsonl"
    while not lines.exists() or lines.read_bytes().count(b"\n") < 12:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    subprocess.run([*command, "resume", str(out)], check=True, stdout=subprocess.DEVNULL)  # noqa: S603
    return digest(out)


def swarm(out: Path, **layers: Any) -> dict[str, str]:
    """Real peers; all but what they moved, since who asks first is a matter of time."""
    keys = words({**TINY, "engine.vectorise": "off", "engine.group": 1, "peers": 4, **layers})
    command = [
        sys.executable,
        "-m",
        "amity",
        "swarm",
        *keys,
        f"out={out}",
        "net.gather=30",
        "net.deadline=30",
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603
    found = digest(out, LIVE)
    for state in sorted(out.glob("peers/*/state")):
        found[state.parent.name] = digest(state, LIVE)["models"]
    return found


def measure() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for label, config in configs():
            path = Path(folder) / str(len(found))
            amity.run(config, out=path)
            found[label] = digest(path)
            sys.stderr.write(f"{len(found)} runs: {label}\n")
        found["killed and resumed"] = killed_and_resumed(Path(folder) / "resumed")
        found["swarm"] = swarm(Path(folder) / "swarm")
        found["swarm, visits"] = swarm(Path(folder) / "visits", strategy=VISITS)
    sys.stderr.write(f"{len(found)} runs\n")
    return found


def main() -> None:
    match sys.argv[1:]:
        case ["write", name]:
            Path(name).write_text(json.dumps(measure(), indent=1))
        case ["check", name]:
            before, now = json.loads(Path(name).read_text()), measure()
            parts = [(label, part) for label in before for part in before[label]]
            changed = [
                (label, part)
                for label, part in parts
                if before[label][part] != now[label].get(part)
            ]
            for label, part in changed:
                sys.stdout.write(f"differs: {label}: {part}\n")
            sys.stdout.write(f"{len(before)} runs, {len(parts)} digests, {len(changed)} differ\n")
            raise SystemExit(bool(changed))
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
