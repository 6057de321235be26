"""report.html: one self-contained page about a run, a comparison or a dataset."""

from __future__ import annotations

import html
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amity.config import SECTIONS, Config, Pick
from amity.data.inputs import described
from amity.round.build import deal_out, load_data
from amity.round.truth import Friendship
from amity.show import figures, matrices
from amity.show.columns import cells_of, columns_of
from amity.show.foot import foot
from amity.show.page import REPLAY, framed, page, replayed, section
from amity.show.panels import html_of
from amity.show.worlds import groups_said, world_section
from amity.topology import peer_names

if TYPE_CHECKING:
    from amity.lab.comparison import Comparison
    from amity.lab.result import Result
    from amity.show.story import Story


def table(story: Story, bold: Collection[str] | None = None, said: str | None = None) -> str:
    """The summary: who leads is bold (or others, if told), references are in italics. Below it
    stands what may be concluded, or what is `said`."""
    marked = {story.leader} if bold is None else bold
    columns = columns_of(story.lines, story.said)
    head = "".join(f'<th title="{html.escape(c.tip)}">{html.escape(c.name)}</th>' for c in columns)
    rows = []
    for line in story.lines:
        name, *values = (html.escape(cell) for cell in cells_of(line, columns))
        kind = ' class="ref"' if line.label in story.references else ""
        best = ' class="best"' if line.label in marked else ""
        rows.append(
            f"<tr{best}><td{kind}>{name}</td>" + "".join(f"<td>{v}</td>" for v in values) + "</tr>"
        )
    legend = "".join(
        f"<li><b>{html.escape(c.name)}</b>: {html.escape(c.tip)}</li>" for c in columns
    )
    private = "".join(
        f"<p>{html.escape(line.label)}: ε is for the training only; it excludes"
        f" {html.escape(line.epsilon_excludes)}.</p>"
        for line in story.lines
        if line.epsilon_excludes
    )
    return (
        f'<div class="wide"><table class="numbers"><tr>{head}</tr>{"".join(rows)}</table></div>'
        f"{_said(story) if said is None else said}{private}<details><summary>What the columns"
        f" mean</summary><ul>{legend}</ul></details>"
    )


def _said(story: Story) -> str:
    """What may be concluded from the table."""
    if len(story.runs) < 2:
        return ""
    italics = " In italics: references, which see more than a peer can." * bool(story.references)
    bold = " Bold: who leads." * bool(story.leader)
    return f"<p>{html.escape(story.standing)}{bold}{italics}</p>"


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
    replays = replayed(comparison.path)
    return page(
        "Amity: comparison",
        "<h1>Who should I learn from?</h1>",
        *comparison.parts,
        foot=foot_of(comparison),
        replays=replays,
    )


def foot_of(*comparisons: Comparison, folder: Path | None = None) -> str:
    """The foot of the page about all runs of these; `folder` is where the page is, if it is not
    the first one's."""
    runs = [run.path for one in comparisons for runs in one.results.values() for run in runs]
    return foot(folder or comparisons[0].path, runs)


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
        table(story),
        REPLAY,
        *html_of(story),
        details("Config of the first run", story.config),
    ]


def run_html(result: Result, peers: Sequence[str] = ()) -> str:
    """The report of a single run; `peers` are sections about the peers of a real network."""
    label, story = result.config.label, result.story
    about = describe([result.config], [result.config.seed])
    return page(
        f"Amity: {label}",
        f"<h1>{html.escape(label)}</h1><p>{html.escape(about)}</p>",
        _friend(story),
        table(story),
        REPLAY,
        *html_of(story),
        *peers,
        details("Config", result.config),
        foot=foot(result.path, [result.path]),
        replays=result.path,
    )


def _friend(story: Story) -> str:
    """What a friend is in this world."""
    return f"<p>Here a friend is {html.escape(story.said)}.</p>" if story.said else ""


def details(title: str, config: Config) -> str:
    """The whole config, to be unfolded."""
    text = html.escape(config.to_toml())
    return f"<details><summary>{title}</summary><pre>{text}</pre></details>"


def data_html(config: Config) -> tuple[str, str]:
    """How a dataset looks: a contact sheet by class, the partition that the config makes of it, and
    what each group of peers sees. And who the groups are, in a line (empty: there are none)."""
    dataset = load_data(config)
    names = peer_names(config.peers)
    data = deal_out(config, dataset, names)
    friendship = Friendship.of(data, config.eval.friend)
    counts = (
        f"{len(dataset.train)} training and {len(dataset.test)} test examples, {dataset.classes}"
        " classes"
    )
    sheet = (
        framed(figures.svg(figures.contact_sheet(dataset)), "Samples", photo=True)
        if len(dataset.sides) == 3
        else "<p>These are no images.</p>"
    )
    plain = config.shift.instance.plain
    world = "The groups of the data" if plain else f"The world: {config.shift.name}"
    shown = page(
        f"Amity: {config.data.name}",
        f"<h1>{html.escape(config.data.name)}</h1><p>{html.escape(counts)}:"
        f" {html.escape(described(dataset.shape))}</p>",
        section(
            "Samples", "The first training examples of each class (at most 20 classes).", sheet
        ),
        section(
            f"The partition: {config.partition.name}",
            f"Which classes each of {config.peers} peers holds (seed {config.seed}).",
            framed(figures.svg(matrices.partition_bubbles(friendship)), "The partition"),
        ),
        world_section(world, dataset, data),
    )
    return shown, groups_said(data)
