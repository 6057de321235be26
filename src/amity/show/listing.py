"""What `amity list` prints: all entries at a glance, or what every option of one of them means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from amity.config.catalogue import Chapter, scalars
from amity.console import out_console, say
from amity.core import Reference
from amity.errors import ConfigError, near, unknown
from amity.registry import Entry, Option

MORE = "what they mean: amity list strategy.afind+, amity list train, amity list train.lr"


def show_all(kinds: Sequence[Chapter]) -> None:
    """Every kind with its entries, and the plain options."""
    for kind in kinds:
        if kind.registry is not None:
            _show_kind(kind)
    out_console.print("\n[bold]of the run[/bold]")
    for options in (scalars(), *(kind.of_any() for kind in kinds if kind.registry is None)):
        _wrapped(_short(options), 2)
    out_console.print(
        "  [dim]defaults are the paper's; a dataset may suit others: see config.toml of a run[/dim]"
    )
    say(f"\n{MORE}")


def show_some(what: str, kinds: Sequence[Chapter]) -> None:
    """A kind (`strategy`, `train`), an entry (`strategy.afind+`, `gossip`), or options (`train.lr`,
    `tau`)."""
    for shown in _shown(what, kinds):
        shown()
        return
    raise ConfigError(_nothing(what, kinds))


def _shown(what: str, kinds: Sequence[Chapter]) -> Iterator[Callable[[], None]]:
    """What may be meant, the likeliest first."""
    every = [*scalars(), *(option for kind in kinds for option in kind.options())]
    for kind in kinds:
        if what in (kind.name, kind.name.rpartition(".")[2]):
            yield partial(_show_part, kind, [k for k in kinds if k.name.startswith(f"{what}.")])
    if what == "run":
        yield partial(_explain, scalars())
    if exact := [option for option in every if option.key == what]:
        yield partial(_explain, exact, named=True)
    if entries := list(_entries_of(what, kinds)):
        yield partial(_show_entries, entries)
    alike = [kind for kind in kinds if len(what) > 3 and kind.name[:4] == what[:4]]
    yield from (partial(_show_part, kind) for kind in alike if not {".", "="} & set(what))
    if by_name := [option for option in every if option.key.rpartition(".")[2] == what]:
        yield partial(_explain, by_name, named=True)


# -- what is meant ---------------------------------------------------------------------------------


def _entries_of(what: str, kinds: Sequence[Chapter]) -> Iterator[tuple[Chapter, Entry[Any]]]:
    """All entries of a name, of one kind or of any; also a class of one's own."""
    for kind in kinds:
        name = what.removeprefix(f"{kind.name}.").removeprefix(f"{kind.name}=")
        if kind.registry is not None and (name in kind.registry or (name != what and ":" in name)):
            yield kind, kind.registry[name]


def _nothing(what: str, kinds: Sequence[Chapter]) -> str:
    entries = [f"{kind.name}.{entry.name}" for kind in kinds for entry in kind.entries()]
    bare = [entry.partition(".")[2] for entry in entries]
    close = near(what, entries, 0.8) or near(what, bare, 0.8)
    return unknown("kind", what, [close] if close else [kind.name for kind in kinds])


# -- how it looks ----------------------------------------------------------------------------------


def _show_part(kind: Chapter, below: Sequence[Chapter] = ()) -> None:
    """A kind: its entries, or what its options mean where it has none. `below`: kinds whose
    options stand among its own."""
    if kind.registry is not None:
        _show_kind(kind)
        first = kind.default or kind.entries()[0].name
        say(f"\nwhat the options mean: amity list {kind.name}.{first}")
    else:
        out_console.print(f"[bold]{kind.name}[/bold]  {escape(kind.about)}", soft_wrap=True)
        _explain(kind.of_any())
    for other in below:
        out_console.print(f"\n[bold]{other.key}=[/bold]  {escape(other.about)}", soft_wrap=True)
        _show_entries((other, entry) for entry in other.entries())


def _show_kind(kind: Chapter) -> None:
    """Its entries with their options, in short."""
    out_console.print(f"\n[bold]{kind.key}=[/bold]  [dim]{escape(kind.about)}[/dim]")
    for entry in kind.entries():
        out_console.print(_headline(entry, 2), soft_wrap=True)
        if options := _short(kind.of_entry(entry), whole=False):
            _wrapped(options, 6)
    if kind.of_any():
        _wrapped(f"with any of them: {_short(kind.of_any(), whole=False)}", 2)


def _show_entries(entries: Iterable[tuple[Chapter, Entry[Any]]]) -> None:
    """Entries, with what each option means."""
    for kind, entry in entries:
        out_console.print(f"[bold]{kind.key}=[/bold]{_headline(entry, 0)}", soft_wrap=True)
        _explain(kind.of_entry(entry))
        if kind.of_any():
            out_console.print(f"\n[dim]with any {kind.name}:[/dim]")
            _explain(kind.of_any())


def _headline(entry: Entry[Any], indent: int) -> str:
    reference = " [dim](reference)[/dim]" if issubclass(entry.cls, Reference) else ""
    name = f"[bold cyan]{escape(entry.name)}[/bold cyan]"
    return f"{' ' * indent}{name}{reference}  {escape(entry.summary)}"


def _explain(options: Iterable[Option], *, named: bool = False) -> None:
    """Two lines an option: how it is written and what is allowed; what it means. `named`: also
    which entry it belongs to."""
    for option in options:
        line = Text(f"  {option.key}={option.shown}", style="bold")
        line.append(f"  {option.allowed}", style="dim not bold")
        if named and option.of:
            line.append(f"  (of {option.of})", style="dim not bold")
        out_console.print(line, soft_wrap=True)
        out_console.print(Padding(Text(option.meaning or "(its class does not say)"), (0, 0, 0, 6)))


def _short(options: Iterable[Option], *, whole: bool = True) -> str:
    """`k=10  cut=draw (top|draw)`."""
    parts = []
    for option in options:
        key = option.key if whole else option.key.rpartition(".")[2].rpartition(":")[2]
        choices = f" ({option.range.replace(' | ', '|')})" if " | " in option.range else ""
        parts.append(f"{key}={option.shown}{choices}")
    return "  ".join(parts)


def _wrapped(text: str, indent: int) -> None:
    out_console.print(Padding(Text(text, style="dim"), (0, 0, 0, indent)))
