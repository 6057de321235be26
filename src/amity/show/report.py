"""report.html: one self-contained page about a run, a comparison or a dataset."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from amity.config import SECTIONS, Config, Pick
from amity.core import Reference
from amity.round.build import deal_out, load_data
from amity.round.truth import Friendship
from amity.show import figures
from amity.show.page import page, section
from amity.show.panels import html_of
from amity.show.summary import Line, cells_of, columns_of, summarise
from amity.show.worlds import groups_said, world_section
from amity.topology import peer_names

if TYPE_CHECKING:
    from amity.lab.comparison import Comparison
    from amity.lab.result import Result
    from amity.show.story import Story


def table(lines: Sequence[Line], references: set[str], friend: str = "") -> str:
    """The summary; the best accuracy of those that are no references is bold, references are in
    italics. `friend` says what a friend is."""
    fair = [line for line in lines if line.label not in references] or lines
    top = max(fair, key=lambda line: line.accuracy).label
    columns = columns_of(lines, friend)
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
        for key in ("shift", "mixer", "privacy", "attack")
        if (pick := getattr(config, key)).name != SECTIONS[key].default
    ]
    others = "".join(f"; {key} {pick.name} ({_options(pick)})" for key, pick in more)
    others += f"; trained by {config.stepping}" if config.stepping else ""
    others += "; optimisers kept from round to round" if config.train.keep else ""
    return (
        f"{config.data.name}, {config.peers} peers, {config.rounds} rounds; partition {part.name}"
        f" ({_options(part)}); topology {config.topology.name}; model {config.model.name}; method"
        f" {methods}{others}; seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
    )


def _options(pick: Pick[Any]) -> str:
    return ", ".join(
        f"{k}={v}" for k, v in pick.to_dict().items() if k != "name" and v not in (0, 0.0, "")
    )


def comparison_html(comparison: Comparison) -> str:
    """The report of a comparison."""
    return page(
        "Amity: comparison", "<h1>Who should I learn from?</h1>", *comparison_parts(comparison)
    )


def comparison_parts(comparison: Comparison) -> list[str]:
    """All that the report of a comparison says, without its headline."""
    story = comparison.story
    seeds = [run.config.seed for run in next(iter(story.runs.values()))]
    configs = [runs[0].config for runs in story.runs.values()]
    failed = "".join(
        f'<p class="bad">{html.escape(what)}: {html.escape(error)}</p>'
        for what, error in story.errors.items()
    )
    return [
        f"<p>{html.escape(describe(configs, seeds))}</p>",
        _friend(story),
        failed,
        table(comparison.lines, references(story.runs), story.said),
        *html_of(story),
        _details("Config of the first run", story.config),
    ]


def run_html(result: Result, peers: Sequence[str] = ()) -> str:
    """The report of a single run; `peers` are sections about the peers of a real network."""
    label, story = result.config.label, result.story
    about = describe([result.config], [result.config.seed])
    return page(
        f"Amity: {label}",
        f"<h1>{html.escape(label)}</h1><p>{html.escape(about)}</p>",
        _friend(story),
        table([summarise(label, [result], [])], references(story.runs), story.said),
        *html_of(story),
        *peers,
        _details("Config", result.config),
    )


def _friend(story: Story) -> str:
    """What a friend is in this world."""
    return f"<p>Here a friend is {html.escape(story.said)}.</p>" if story.said else ""


def _details(title: str, config: Config) -> str:
    text = html.escape(config.to_toml())
    return f"<details><summary>{title}</summary><pre>{text}</pre></details>"


def data_html(config: Config) -> tuple[str, str]:
    """How a dataset looks: a contact sheet by class, the partition that the config makes of it, and
    what each group of peers sees. And who the groups are, in a line (empty: there are none)."""
    dataset = load_data(config)
    names = peer_names(config.peers)
    data = deal_out(config, dataset, names)
    counts = (
        f"{len(dataset.train)} training and {len(dataset.test)} test examples, {dataset.classes}"
        " classes"
    )
    sheet = (
        figures.svg(figures.contact_sheet(dataset))
        if len(dataset.shape) == 3
        else "<p>These are no images.</p>"
    )
    plain = config.shift.instance.plain
    world = "The groups of the data" if plain else f"The world: {config.shift.name}"
    shown = page(
        f"Amity: {config.data.name}",
        f"<h1>{html.escape(config.data.name)}</h1><p>{html.escape(counts)}, shape"
        f" {dataset.shape}</p>",
        section(
            "Samples", "The first training examples of each class (at most 20 classes).", sheet
        ),
        section(
            f"The partition: {config.partition.name}",
            f"Which classes each of {config.peers} peers holds (seed {config.seed}).",
            figures.svg(figures.partition_bubbles(Friendship.of(data, config.eval.friend))),
        ),
        world_section(world, dataset, data),
    )
    return shown, groups_said(data)
