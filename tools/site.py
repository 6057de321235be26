"""What the site has besides the pages in docs/: mkdocs calls these hooks while it builds.

* Whatever a page links to outside docs/ is part of the site, at its path in the repository: pages
  as pages, pictures as pictures, code as a page that shows it, a folder as a list. So one link
  works both on the site and where the repository is read. What does not exist is left as it is,
  and the strict build refuses it.
* The reference is generated: commands from the command line itself, options from the typed classes,
  Python from the public names.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
DOCS = "docs"
LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
ELSEWHERE = re.compile(r"[a-z]+:")
PICTURES = (".png", ".svg")
START = {"README.md": "docs/index.md"}
"""Pages that have another form on the site."""


def source_of(uri: str) -> str:
    """The path in the repository of a page of the site."""
    return f"{DOCS}/{uri}" if (ROOT / DOCS / uri).exists() else uri.removesuffix(".shown.md")


def uri_of(path: str) -> str:
    """The page of the site that shows a path in the repository."""
    path = START.get(path, path)
    if path.startswith(f"{DOCS}/"):
        return path.removeprefix(f"{DOCS}/")
    return path if path.endswith((".md", *PICTURES)) else f"{path}.shown.md"


def targets(text: str, page: str) -> Iterator[str]:
    """The paths in the repository to which a page links, where there is such a file."""
    for _, target, _, _ in LINK.findall(text):
        path = resolved(target, page)
        if path is not None:
            yield path


def resolved(target: str, page: str) -> str | None:
    if ELSEWHERE.match(target):
        return None
    path = os.path.normpath(PurePosixPath(page).parent / target)
    return path if not path.startswith("..") and (ROOT / path).exists() else None


def shown(path: Path) -> str:
    """A file that is no page, as one."""
    name = path.relative_to(ROOT).as_posix()
    if path.is_dir():
        files = sorted(child.name for child in path.iterdir() if not child.name.startswith("."))
        return f"# {name}/\n\n" + "\n".join(f"* `{file}`" for file in files)
    if path.suffix == ".ipynb":
        return f"# {name}\n\n" + "\n\n".join(cells(path))
    kind = {".py": "python", ".toml": "toml", ".yaml": "yaml"}.get(path.suffix, "text")
    text = path.read_text(encoding="utf-8")
    return f"# {name}\n\n````{kind}\n{text}\n````\n"


def cells(path: Path) -> Iterator[str]:
    """The cells of a notebook."""
    for one in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        text = "".join(one["source"])
        yield text if one["cell_type"] == "markdown" else f"```python\n{text}\n```"


def on_files(files: Files, config: Any) -> Files:
    """Add what pages link to, and what these link to."""
    waiting = [source_of(file.src_uri) for file in files.documentation_pages()]
    waiting += [uri for uri in named(config.nav) if not (ROOT / DOCS / uri).exists()]
    seen: set[str] = set()
    while waiting:
        page = waiting.pop()
        if page in seen or not (ROOT / page).exists():
            continue
        seen.add(page)
        uri = uri_of(page)
        if files.get_file_from_path(uri) is None:
            files.append(added(page, uri, config))
        if page.endswith(".md"):
            waiting += targets((ROOT / page).read_text(encoding="utf-8"), page)
    return files


def named(nav: Any) -> Iterator[str]:
    """The pages of the navigation."""
    for one in nav if isinstance(nav, list) else nav.values() if isinstance(nav, dict) else [nav]:
        if isinstance(one, str):
            yield one
        else:
            yield from named(one)


def added(path: str, uri: str, config: Any) -> File:
    if uri.endswith(".shown.md"):
        return File.generated(config, uri, content=shown(ROOT / path))
    return File.generated(config, uri, abs_src_path=str(ROOT / path))


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links as they are on the site, and the generated parts."""
    uri = page.file.src_uri
    for marker, make in GENERATED.items():
        if marker in markdown:
            markdown = markdown.replace(marker, make())
    if uri.endswith(".shown.md"):
        return markdown
    here = source_of(uri)

    def moved(found: re.Match[str]) -> str:
        path = resolved(found[2], here)
        if path is None:
            return found[0]
        target = os.path.relpath(uri_of(path), PurePosixPath(uri).parent)
        return f"{found[1]}{target}{found[3] or ''}{found[4]}"

    return LINK.sub(moved, markdown)


# -- the reference ---------------------------------------------------------------------------------


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def rows(options: list[Any]) -> str:
    """Options as a table."""
    lines = ["| option | default | allowed | meaning |", "|---|---|---|---|"]
    lines += [
        f"| `{o.key}` | {code(o.shown)} | {cell(o.allowed)} | {cell(o.meaning)} |" for o in options
    ]
    return "\n".join(lines)


def code(text: str) -> str:
    return f"`{cell(text)}`" if text else ""


def options() -> str:
    """Every option, by chapter and entry: what `amity list` shows, as a page."""
    from amity.config.catalogue import scalars
    from amity.lab.catalogue import kinds

    parts = ["## The run itself", rows(scalars())]
    for chapter in kinds():
        parts += [f"## {chapter.name}", chapter.about]
        if chapter.default:
            parts.append(f"Default: `{chapter.key}={chapter.default}`.")
        if chapter.of_any():
            parts.append(rows(chapter.of_any()))
        for entry in chapter.entries():
            parts += [f"### {chapter.key}={entry.name}", cell(entry.summary)]
            own = chapter.of_entry(entry)
            parts += [rows(own)] if own else []
    return "\n\n".join(parts)


def names() -> str:
    """Every public name, by its group: mkdocstrings fills in the rest."""
    import ast

    import amity

    told = about_groups(ast.parse(Path(amity.__file__).read_text(encoding="utf-8")))
    parts = []
    for group, about in told.items():
        parts += [f"## {about}"]
        listed = [name for some in getattr(amity, group).values() for name in some]
        parts += [f"::: amity.{name}" for name in sorted(listed, key=str.lower)]
    return "\n\n".join(parts)


def about_groups(tree: Any) -> dict[str, str]:
    """The groups of public names in `amity/__init__.py`, and the first words below each."""
    import ast

    found = {}
    for at, below in zip(tree.body, tree.body[1:], strict=False):
        said = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        if isinstance(at, ast.Assign) and isinstance(at.value, ast.Dict) and said:
            found[at.targets[0].id] = str(below.value.value).split(".")[0].split(":")[0]
    return found


def commands() -> str:
    """Every command with what it says of itself."""
    import typer

    from amity.cli.app import app

    return "\n\n".join(told_of(typer.main.get_command(app), "amity"))


def told_of(command: Any, name: str) -> Iterator[str]:
    for below, one in getattr(command, "commands", {}).items():
        if hasattr(one, "commands"):
            yield from told_of(one, f"{name} {below}")
            continue
        yield f"## {name} {below}"
        yield cell(" ".join((one.help or "").split()))
        flags = [
            f"| `{', '.join(p.opts)}` | {cell(p.help or '')} |"
            for p in one.params
            if p.param_type_name == "option" and not p.hidden and "--help" not in p.opts
        ]
        if flags:
            yield "\n".join(["| flag | |", "|---|---|", *flags])


GENERATED: dict[str, Callable[[], str]] = {
    "<!-- generated: options -->": options,
    "<!-- generated: names -->": names,
    "<!-- generated: commands -->": commands,
}
