"""report.html: one self-contained page, nothing loaded from anywhere."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from amity._version import __version__
from amity.config import Config, Pick
from amity.core import Reference
from amity.data import split
from amity.errors import RunDirError
from amity.files import write_atomically
from amity.lab.run import Result
from amity.lab.store import read_config
from amity.lab.summary import Line, cells_of, columns_of, gains, summarise
from amity.round.build import load_data
from amity.round.quality import overlap_matrix
from amity.show import figures
from amity.topology import peer_names

if TYPE_CHECKING:
    from amity.lab.compare import Comparison

STYLE = """
body{font:15px/1.5 system-ui,sans-serif;color:#222;max-width:1080px;margin:2em auto;padding:0 1em}
h1{font-size:1.5em;margin-bottom:.2em} h2{font-size:1.15em;margin:2em 0 .3em} p{margin:.3em 0;color:#444;max-width:52em}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.6em 0} th,td{padding:.25em .7em;text-align:right}
th,td{white-space:nowrap}
th{border-bottom:2px solid #888;font-weight:600;cursor:help} td:first-child,th:first-child{text-align:left}
.wide{overflow-x:auto} .words th,.words td{white-space:normal;text-align:left;cursor:auto} .numbers{font-size:.88em}
.numbers th{white-space:normal;vertical-align:bottom;cursor:auto}
tr:nth-child(even){background:#f6f6f6} tr.best td{font-weight:700} td.ref{font-style:italic}
svg{max-width:100%;height:auto} pre{background:#f6f6f6;padding:1em;overflow:auto;font-size:12px} .bad{color:#b00}
details{margin:1em 0} footer{margin-top:3em;color:#888;font-size:.85em}
"""


def page(title: str, *parts: str) -> str:
    body = "\n".join(parts)
    return (
        '<!doctype html><html lang="en"><head><meta'
        f' charset="utf-8"><title>{html.escape(title)}</title><meta name="viewport"'
        f' content="width=device-width,initial-scale=1"><style>{STYLE}</style></head><body>{body}<footer>Amity'
        f" {__version__}</footer></body></html>\n"
    )


def section(title: str, note: str, content: str) -> str:
    return f"<h2>{html.escape(title)}</h2><p>{prose(note)}</p>{content}"


def prose(text: str) -> str:
    """Plain text as HTML; what stands between `backticks` is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))


def markdown_table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in rows)


def html_table(head: Sequence[str], lines: Sequence[Sequence[str]], wrap: bool = False) -> str:
    """`**bold**` cells become bold; `wrap` is for text, whose lines break. A wide table scrolls by
    itself."""

    def cell(text: str) -> str:
        safe = html.escape(text)
        return f"<b>{safe[2:-2]}</b>" if text.startswith("**") else safe

    top = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{cell(text)}</td>" for text in cells) + "</tr>" for cells in lines
    )
    return (
        '<div class="wide"><table'
        f' class="{"words" if wrap else "numbers"}"><tr>{top}</tr>{body}</table></div>'
    )


def table(lines: Sequence[Line], references: set[str]) -> str:
    """The summary; the best accuracy of those that are no references is bold, references are in
    italics."""
    fair = [line for line in lines if line.label not in references] or lines
    top = max(fair, key=lambda line: line.accuracy).label
    columns = columns_of(lines)
    head = "".join(
        f'<th title="{html.escape(tip)}">{html.escape(name)}</th>' for name, tip in columns.items()
    )
    rows = []
    for line in lines:
        name, *values = (html.escape(cell) for cell in cells_of(line, columns))
        kind = ' class="ref"' if line.label in references else ""
        best = ' class="best"' if line.label == top else ""
        rows.append(
            f"<tr{best}><td{kind}>{name}</td>" + "".join(f"<td>{v}</td>" for v in values) + "</tr>"
        )
    legend = "".join(
        f"<li><b>{html.escape(name)}</b>: {html.escape(tip)}</li>" for name, tip in columns.items()
    )
    private = "".join(
        f"<p>{html.escape(line.label)}: ε is for the training only; it excludes"
        f" {html.escape(line.epsilon_excludes)}.</p>"
        for line in lines
        if line.epsilon_excludes
    )
    return (
        f"<table><tr>{head}</tr>{''.join(rows)}</table><p>Bold: the highest accuracy among"
        " strategies that a real network could run. In italics: references, which see more than a"
        " peer can. Differences within a few standard deviations mean"
        f" little.</p>{private}<details><summary>What the columns"
        f" mean</summary><ul>{legend}</ul></details>"
    )


def references(runs: figures.Runs) -> set[str]:
    return {
        label
        for label, rs in runs.items()
        if rs and isinstance(rs[0].config.strategy.instance, Reference)
    }


def describe(configs: Sequence[Config], seeds: Sequence[int]) -> str:
    """What runs have in common, in a line."""
    config, part = configs[0], configs[0].partition
    methods = " or ".join(dict.fromkeys(one.method.name for one in configs))
    more = [
        (key, pick)
        for key in ("mixer", "privacy", "attack")
        if (pick := getattr(config, key)).name not in ("mean", "none")
    ]
    others = "".join(f"; {key} {pick.name} ({_options(pick)})" for key, pick in more)
    return (
        f"{config.data.name}, {config.peers} peers, {config.rounds} rounds; partition {part.name}"
        f" ({_options(part)}); topology {config.topology.name}; model {config.model.name}; method"
        f" {methods}{others}; seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
    )


def _options(pick: Pick[Any]) -> str:
    return ", ".join(
        f"{k}={v}" for k, v in pick.to_dict().items() if k != "name" and v not in (0, 0.0, "")
    )


def _labels(
    config: Config, names: Sequence[str]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Label distributions (peers x classes) and how much every two of them overlap."""
    data = split(load_data(config), config.partition.instance, tuple(names), config.seed)
    labels = {name: data[name].labels for name in names}
    return np.array([labels[name] for name in names]), overlap_matrix(labels)


def _pictures(runs: figures.Runs) -> list[str]:
    from_whom, partition = _of_data(runs)
    return [
        section(
            "Accuracy by round",
            "After the method's own last step (such as fine-tuning), mean over peers; bands: one"
            " std over seeds.",
            figures.svg(figures.accuracy_curves(runs)),
        ),
        section(
            "Accuracy against bytes",
            "The same accuracies against the traffic that they cost: cards, models and replies"
            " received by a peer.",
            figures.svg(figures.accuracy_by_bytes(runs)),
        ),
        from_whom,
        section(
            "Neighbours taken",
            "How many neighbours stand in a peer's average.",
            figures.svg(figures.neighbours_taken(runs)),
        ),
        partition,
    ]


def _of_data(runs: figures.Runs) -> tuple[str, str]:
    """The two pictures that show the peers' labels: who took from whom, and the partition. Nothing
    where the data was passed as an object to another process."""
    config = next(iter(runs.values()))[0].config
    if config.data.absent:
        return "", ""
    names = peer_names(config.peers)
    labels, overlap = _labels(config, names)
    alike = {label: rs for label, rs in runs.items() if rs[0].config.peers == config.peers}
    return section(
        "Who took from whom",
        f"The mixing matrix, mean over the last 40 % of rounds of seed {config.seed}, beside"
        " the true label similarity; row: who took, column: from whom. Peers with similar"
        " labels stand side by side, so friends form blocks.",
        figures.svg(figures.heat_maps(alike, names, overlap)),
    ), section(
        "The partition",
        f"Which classes each peer holds (seed {config.seed}).",
        figures.svg(figures.partition_bubbles(labels, names, overlap)),
    )


def comparison_html(comparison: Comparison) -> str:
    """The report of a comparison."""
    runs = {label: rs for label, rs in comparison.results.items() if rs}
    seeds = [r.config.seed for r in next(iter(runs.values()))]
    failed = "".join(
        f'<p class="bad">{html.escape(k)}: {html.escape(v)}</p>'
        for k, v in comparison.errors.items()
    )
    alone = comparison.alone
    paired = {label: gains(rs, alone) for label, rs in runs.items() if rs is not alone}
    others = {label: values for label, values in paired.items() if values}
    gain = (
        section(
            "Who gains, who is harmed",
            "Each dot is a peer of a seed: its accuracy in the last round minus that of the same"
            " peer training alone.",
            figures.svg(figures.gain_by_peer(others)),
        )
        if others
        else ""
    )
    first, *rest = _pictures(runs)
    return page(
        "Amity: comparison",
        "<h1>Who should I learn"
        f" from?</h1><p>{html.escape(describe([rs[0].config for rs in runs.values()], seeds))}</p>",
        failed,
        table(comparison.lines, references(runs)),
        first,
        gain,
        *rest,
        "<details><summary>Config of the first run</summary>"
        f"<pre>{html.escape(next(iter(runs.values()))[0].config.to_toml())}</pre></details>",
    )


def run_html(result: Result, peers: Sequence[str] = ()) -> str:
    """The report of a single run; `peers` are sections about the peers of a real network."""
    label = result.config.label
    runs = {label: [result]}
    last = {k: v for k, v in result.rounds[-1].items() if isinstance(v, float)}
    network = "".join(
        f"<tr><td>{html.escape(k)}</td><td>{v:.4g}</td></tr>" for k, v in last.items()
    )
    return page(
        f"Amity: {label}",
        f"<h1>{html.escape(label)}</h1><p>{html.escape(describe([result.config], [result.config.seed]))}</p>",
        table([summarise(label, [result], [])], references(runs)),
        _privacy(result),
        *_pictures(runs),
        *peers,
        section(
            "The network in the last round",
            "See the documentation of amity.metrics.",
            f"<table>{network}</table>",
        ),
        f"<details><summary>Config</summary><pre>{html.escape(result.config.to_toml())}</pre></details>",
    )


def _privacy(result: Result) -> str:
    """ε, what it covers, and what each peer has spent."""
    if not result.privacy:
        return ""
    steps, epsilon = result.final("private_steps"), result.final("epsilon")
    rows = "".join(
        f"<tr><td>{html.escape(peer)}</td><td>{count}</td><td>{_epsilon(epsilon.get(peer))}</td></tr>"
        for peer, count in steps.items()
    )
    return section(
        "Privacy",
        f"{result.privacy}. The largest of all peers, as real ones would have it (in a simulation"
        " noise follows from the seed). Fine-tuned copies and personal models are trained without"
        " noise and never leave; ε does not cover them.",
        "<details><summary>By peer</summary><table><tr><th>peer</th><th>private steps or"
        f" uploads</th><th>ε</th></tr>{rows}</table></details>",
    )


def _epsilon(value: float | None) -> str:
    return "infinite" if value is None else f"{value:.3g}"


def data_html(config: Config) -> str:
    """How a dataset looks: a contact sheet by class, and the partition that the config makes of
    it."""
    dataset = load_data(config)
    names = peer_names(config.peers)
    labels, overlap = _labels(config, names)
    counts = (
        f"{len(dataset.train)} training and {len(dataset.test)} test examples, {dataset.classes}"
        " classes"
    )
    sheet = (
        figures.svg(figures.contact_sheet(dataset))
        if len(dataset.shape) == 3
        else "<p>These are no images.</p>"
    )
    return page(
        f"Amity: {config.data.name}",
        f"<h1>{html.escape(config.data.name)}</h1><p>{html.escape(counts)}, shape"
        f" {dataset.shape}</p>",
        section(
            "Samples", "The first training examples of each class (at most 20 classes).", sheet
        ),
        section(
            f"The partition: {config.partition.name}",
            f"Which classes each of {config.peers} peers holds (seed {config.seed}).",
            figures.svg(figures.partition_bubbles(labels, names, overlap)),
        ),
    )


def write_report(path: Path) -> Path:
    """Write report.html anew: for a run, a comparison (a folder of runs by strategy and seed), a
    swarm, a peer's folder, or a folder of several peers' folders."""
    from amity.lab.compare import read_comparison

    if (path / "config.toml").is_file() and not (path / "audit.jsonl").is_file():
        result = Result(path, read_config(path))
        if (
            len(result.metrics) != len(result.rounds) * result.config.peers
            and not (path / "peers").is_dir()
        ):
            raise RunDirError(
                f"{path}: lines of metrics.jsonl are missing; `amity resume {path}` repairs it"
            )
        if not result.curve:
            raise RunDirError(
                f"{path}: no round is done yet; `amity resume {path}` goes on with it"
            )
        write_atomically(path / "report.html", run_html(result, _of_peers(path)).encode())
        return path / "report.html"
    if any(
        (at / name).is_file()
        for at in (path, *path.glob("*"))
        for name in ("peer.toml", "audit.jsonl")
    ):
        from amity.net.ops.report import peers_html

        write_atomically(path / "report.html", peers_html(path).encode())
        return path / "report.html"
    return read_comparison(path).save()


def _of_peers(path: Path) -> list[str]:
    if not (path / "peers").is_dir():
        return []
    from amity.net.ops.report import sections

    return sections(path)
