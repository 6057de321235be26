"""`amity watch`, and `--live` of other commands: who learns from whom, in a browser."""

from __future__ import annotations

import inspect
import webbrowser
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from amity.console import say
from amity.errors import RunDirError, needs

Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH|URL...",
        help="Runs, comparisons, sweeps, swarms, peers' folders; or another live page's address.",
    ),
]
PortOption = Annotated[
    int, typer.Option("--port", help="Of the page; 0: 8765, or any that is free.")
]
OpenOption = Annotated[bool, typer.Option("--open", help="Open the page in a browser.")]
LiveOption = Annotated[bool, typer.Option("--live", help="Serve a live page beside the work.")]


def watch(
    paths: Paths,
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    port: PortOption = 0,
    show: OpenOption = False,
    tls: Annotated[
        Path | None, typer.Option("--tls", help="A peer's folder, whose certificate is used.")
    ] = None,
    ca: Annotated[
        Path | None, typer.Option("--ca", help="Authority of the pages that are read by https.")
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Allow other machines without TLS.")
    ] = False,
) -> None:
    """A live page about runs, comparisons, sweeps, swarms and real peers, running or finished. It
    is served to this machine alone, at an address with a token, until Ctrl-C."""
    with needs("live", "starlette", "uvicorn"):
        from amity.live.mirror import Mirror
        from amity.live.serving import serve
        from amity.live.where import Where
    here = [Path(path) for path in paths if "://" not in path]
    for path in here:
        if not path.is_dir():
            raise RunDirError(f"{path}: is no directory; `amity watch` shows what is in one")
    where = Where.of(host, port, here, insecure=insecure, tls=tls)
    with ExitStack() as stack:
        mirrors = [Mirror(path, ca) for path in paths if "://" in path]
        for mirror in mirrors:
            stack.enter_context(closing(mirror)).start()
        with where.listen() as listening:
            address = where.address(listening)
            say(f"live page: {address}")
            if where.open and where.identity is None:
                say("anyone on the way can read along: there is no TLS (--insecure)")
            if show:
                webbrowser.open(address)
            serve(here, where, listening, mirrors=mirrors)


# -- beside other commands -------------------------------------------------------------------------


@dataclass(frozen=True)
class LivePage:
    """What a command was told of a live page beside its work."""

    wanted: bool = False
    port: int = 0
    show: bool = False

    @contextmanager
    def beside(
        self, paths: Sequence[Path], labels: Mapping[Path, str] | None = None
    ) -> Iterator[None]:
        """Inside, the page is served, if it is wanted. `labels`: what runs are called that do not
        say it themselves."""
        if not (self.wanted and paths):
            yield
            return
        from amity.live.beside import beside
        from amity.live.where import Where

        with needs("live", "starlette", "uvicorn"):
            for package in ("starlette", "uvicorn"):  # which the page loads, not the command
                if find_spec(package) is None:
                    raise ModuleNotFoundError(name=package)
        where = Where.of("127.0.0.1", self.port, paths, insecure=False, tls=None)
        with beside(paths, where, labels or {}) as address:
            say(f"live page: {address}")
            if self.show:
                webbrowser.open(address)
            yield
            again = paths[0] if len(paths) == 1 else paths[0].parent
            say(f"the live page ends here; `amity watch {again}` shows it again")


NO_PAGE = LivePage()


def _options(live: LiveOption = False, port: PortOption = 0, show: OpenOption = False) -> LivePage:
    return LivePage(live, port, show)


def with_live_page(command: Callable[..., None]) -> Callable[..., None]:
    """A command that takes `page` gets the options --live, --port and --open in place of it."""
    hints = get_type_hints(command, include_extras=True)
    own = [
        one.replace(annotation=hints[name])
        for name, one in inspect.signature(command).parameters.items()
        if name != "page"
    ]
    live = inspect.signature(_options, eval_str=True).parameters

    @wraps(command)
    def called(**given: Any) -> None:
        page = _options(**{name: given.pop(name) for name in live if name in given})
        command(**given, page=page)

    parameters = [*own, *live.values()]
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {one.name: one.annotation for one in parameters}
    return called
