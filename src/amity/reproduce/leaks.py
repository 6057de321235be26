"""What cards tell, as tables, a picture and a page."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from amity.config import Config
from amity.files import csv_text, write_atomically
from amity.reproduce.experiment import Grid
from amity.reproduce.kinds import PROXIES, SIGMAS, SKETCHES, USUAL, CardKind
from amity.reproduce.leak_claims import LeakVerdict, judge_leaks
from amity.reproduce.leakage import Leak
from amity.show import figures
from amity.show.page import framed, html_table, markdown_table, page, section
from amity.show.report import describe
from amity.show.summary import std

Line = list[tuple[float, float]]
"""Mean and standard deviation at each tick."""
Panels = list[tuple[str, str, list[str], dict[str, Line]]]
"""Title, axis, ticks, and the lines by name."""
INTRODUCTION = (
    "Leakage: how far half of the peers, pooling their own cards and labels, come in predicting the"
    " label distributions of the other half; 0 is no better than without cards, 1 is exact. AUC:"
    " how well cosines of the same cards tell friends from strangers; 0.5 is chance. Friends are"
    " peers of the same group where the world has groups, otherwise those whose labels overlap."
    " Cards of two halves (twins, twins_body) are compared by their likeness, and never change."
)


@dataclass(frozen=True, kw_only=True)
class Leaks:
    """What was found for all worlds and seeds."""

    title: str
    worlds: Mapping[str, Config]
    seeds: tuple[int, ...]
    leaks: Sequence[Leak]
    errors: Mapping[str, str] = field(default_factory=dict)
    stand_in: str = ""
    """What is wrong with the numbers, where other data stand in."""

    @cached_property
    def verdicts(self) -> list[LeakVerdict]:
        return judge_leaks(self.leaks, self.stand_in)

    def shown(self) -> list[Grid]:
        return []

    def remarks(self) -> list[str]:
        return [*[self.stand_in] * bool(self.stand_in), *map(str, self.verdicts)]

    def picture(self) -> str:
        return figures.svg(figures.leakage_panels(self._panels()))

    def markdown(self, tables: int | None = None) -> str:
        """The tables (or only the first ones) and what is said of them."""
        parts = [self.stand_in] * bool(self.stand_in)
        for name, rows in list(self._tables.items())[:tables]:
            parts += [f"**{name}**", markdown_table(self._head(), rows)]
        parts += [f"* **{v.claim.text}** *{v.status}.* {v.evidence}" for v in self.verdicts]
        return "\n\n".join(parts) + "\n"

    def save(self, path: Path) -> Path:
        """labels.csv, table.md, figure.svg and report.html."""
        head, picture = self._head(), self.picture()
        about = "".join(
            f"<p><b>{html.escape(world)}</b>: {html.escape(describe([config], self.seeds))}</p>"
            for world, config in self.worlds.items()
        )
        said = "".join(f"<p>{html.escape(line)}</p>" for line in self.remarks())
        text = page(
            "Amity: what a card tells of labels",
            f"<h1>{html.escape(self.title, quote=False)}</h1>{about}",
            section("The picture", INTRODUCTION, framed(picture, self.title)),
            *(
                section(name, "Mean ± standard deviation over seeds.", html_table(head, rows))
                for name, rows in self._tables.items()
            ),
            section("What we say", "", said),
        )
        for name, content in (
            ("labels.csv", csv_text([asdict(leak) for leak in self.leaks])),
            ("table.md", self.markdown()),
            ("figure.svg", picture),
            ("report.html", text),
        ):
            write_atomically(path / name, content.encode())
        return path / "report.html"

    @cached_property
    def _tables(self) -> dict[str, list[list[str]]]:
        plain, other = ([k for k in self._kinds() if k.plain is wanted] for wanted in (True, False))
        return {
            f"Cards of {USUAL} numbers, and of two halves": self._rows(plain),
            "Other sizes, signs and noise": self._rows(other),
        }

    @cached_property
    def _rounds(self) -> list[int]:
        return sorted({leak.round for leak in self.leaks})

    @cached_property
    def _found(self) -> dict[tuple[str, CardKind, int], list[Leak]]:
        """All seeds of a world, a kind of card and a round."""
        found: dict[tuple[str, CardKind, int], list[Leak]] = {}
        for leak in self.leaks:
            found.setdefault((leak.world, leak.kind, leak.round), []).append(leak)
        return found

    def _kinds(self) -> list[CardKind]:
        return list(dict.fromkeys(leak.kind for leak in self.leaks))

    def _stat(self, number: str, world: str, kind: CardKind, round: int) -> tuple[float, float]:
        """Mean and standard deviation over seeds of one number."""
        here = [getattr(leak, number) for leak in self._found.get((world, kind, round), ())]
        return (float(np.mean(here)), std(here)) if here else (float("nan"), float("nan"))

    def _head(self) -> list[str]:
        numbers = [f"{name}, round {t}" for name in ("AUC", "leakage") for t in self._rounds]
        return ["world", "proxy", "numbers", "bits", "σ", "bytes", *numbers]

    def _rows(self, kinds: Sequence[CardKind]) -> list[list[str]]:
        """The lines of a table: world by world, all rounds side by side."""
        rows = []
        for world in dict.fromkeys(leak.world for leak in self.leaks):
            for kind in (k for k in kinds if (world, k, self._rounds[0]) in self._found):
                nbytes, _ = self._stat("nbytes", world, kind, self._rounds[0])
                stats = [
                    self._stat(number, world, kind, t)
                    for number in ("auc", "leakage")
                    for t in self._rounds
                ]
                named = [world, kind.proxy, kind.numbers, str(kind.bits)]
                cells = [f"{mean:.2f} ± {spread:.2f}" for mean, spread in stats]
                rows.append([*named, f"{kind.sigma:g}", f"{nbytes:.0f}", *cells])
        return rows

    def _panels(self) -> Panels:
        """The panels of the picture: by proxy, by world, and of the paper's proxy by size of the
        card and by noise."""
        rounds, sizes = self._rounds, (*SKETCHES[1:], 0)
        worlds = list(dict.fromkeys(leak.world for leak in self.leaks))
        first = worlds[0]

        def usual(kinds: Iterable[tuple[int, float]]) -> dict[str, Line]:
            """Of the usual proxy in the first and the last round, for these sizes and σ."""
            cards = [CardKind(PROXIES[0], sketch, 32, sigma) for sketch, sigma in kinds]
            return {
                f"{number}, round {t}": [self._stat(number, first, card, t) for card in cards]
                for t in sorted({rounds[0], rounds[-1]})
                for number in ("leakage", "auc")
            }

        def by_proxy(number: str, places: Sequence[tuple[str, int]]) -> dict[str, Line]:
            return {p: [self._stat(number, w, CardKind(p), t) for w, t in places] for p in PROXIES}

        return [
            (
                f"leakage by proxy ({USUAL} numbers, {first})",
                "round",
                [str(t) for t in rounds],
                by_proxy("leakage", [(first, t) for t in rounds]),
            ),
            (
                f"AUC of friends by world (round {rounds[-1]})",
                "",
                [world.replace("_", "\n") for world in worlds],
                by_proxy("auc", [(world, rounds[-1]) for world in worlds]),
            ),
            (
                f"{PROXIES[0]}, by size of the card",
                "numbers on the card",
                [str(d or "all") for d in sizes],
                usual((d, 0.0) for d in sizes),
            ),
            (
                f"{PROXIES[0]}, by noise ({USUAL} numbers)",
                "σ of privacy=proxy",
                [f"{sigma:g}" for sigma in SIGMAS],
                usual((USUAL, sigma) for sigma in SIGMAS),
            ),
        ]
