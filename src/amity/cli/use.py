"""`amity export`, `predict` and `serve`: take a model out, and use it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from amity.cli.common import Keys, Trust
from amity.console import complain, err_console, say, status
from amity.errors import ConfigError, needs
from amity.files import write_atomically

Holder = Annotated[Path, typer.Argument(metavar="DIR", help="A run, a swarm, or a peer's folder.")]
Export = Annotated[
    Path,
    typer.Argument(metavar="EXPORT", help="A folder that `amity export` wrote, or a file in it."),
]


def export(
    path: Holder,
    words: Keys = None,
    onnx: Annotated[
        bool, typer.Option("--onnx", help="Also as ONNX, compared with torch on examples.")
    ] = False,
    trust: Trust = False,
) -> None:
    """Take models out of a run, a swarm or a peer's folder: best and last as safetensors, and
    MODEL.md. Own keys: peer=NAME (default: all; peer-00, or who that is in your data) out=DIR
    onnx=true."""
    from amity.config import only, out_path
    from amity.lab.export import export as export_models
    from amity.lab.export import notes_of

    mine = only(words or [], "peer", "out", "onnx")
    out = out_path(mine) if "out" in mine else None
    with err_console.status("computing the models") as shown:
        taken = export_models(
            path,
            mine.get("peer", ""),
            out,
            onnx=_flag(mine, "onnx", onnx),
            trust=trust,
            tell=lambda peer: shown.update(f"computing the models of {peer}"),
        )
    for one in taken:
        say(f"{one.folder}: {', '.join(file.name for file in one.files)}")
    for note in notes_of(taken):
        err_console.print(note, markup=False, soft_wrap=True)


def predict(
    model: Export,
    examples: Annotated[
        Path,
        typer.Argument(help="A .csv, .parquet, .npy, .npz or .txt file, or a folder of images."),
    ],
    words: Keys = None,
) -> None:
    """Classify new examples with an exported model: CSV with the label and the probability of every
    class; or with numbers, labels, or the next token and the perplexity of each row, as the task
    wants. Own keys: id=COLUMN (is kept) model=best|last out=FILE.csv; of tables fill=true (what is
    missing or unknown is taken as it usually was in training) na=WORD,WORD (for missing values).
    network=FILE.py:NAME names a network of your own that you have not run here before."""
    from amity.config import only, out_path, split_list
    from amity.use.prediction import predict as classify

    mine = only(words or [], "id", "model", "out", "fill", "na", "network")
    with status(f"classifying {examples}"):
        found = classify(
            model,
            examples,
            id=mine.get("id", ""),
            which=mine.get("model", ""),
            fill=_flag(mine, "fill", False),
            na=tuple(split_list(mine.get("na", ""))),
            network=mine.get("network", ""),
        )
    if "out" in mine:
        write_atomically(out_path(mine), found.to_csv().encode())
        say(f"{out_path(mine)}: {len(found.examples.ids)} examples")
    else:
        sys.stdout.write(found.to_csv())
    for note in found.examples.notes:
        _aside(note)
    if found.verdict:
        _aside(found.verdict)
    if found.strange:
        complain(f"labels that are no classes of the model: {', '.join(found.strange[:5])}")


def serve(
    model: Export,
    words: Keys = None,
    host: Annotated[str, typer.Option(help="Also host=ADDRESS.")] = "",
    port: Annotated[str, typer.Option(help="Also port=N; 0: any that is free.")] = "",
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Allow other machines, without password or TLS.")
    ] = False,
) -> None:
    """Answer over HTTP on this machine: POST /predict, GET /health, GET /openapi.json. Own keys:
    host=127.0.0.1 port=8000 model=best|last, and fill=true and network= as in `amity predict`."""
    from amity.config import only
    from amity.use.classifier import open_model

    with needs("serve", "starlette", "uvicorn"):
        from amity.use.server import Endpoint, serve_model
    mine = only(words or [], "host", "port", "model", "fill", "network")
    where = Endpoint.of(
        _once(mine, "host", host) or "127.0.0.1",
        _once(mine, "port", port) or "8000",
        insecure=insecure,
        fill=_flag(mine, "fill", False),
    )
    with status(f"opening {model}"):
        opened = open_model(model, mine.get("model", ""), mine.get("network", ""))
    serve_model(opened, where, say)


def _once(mine: Mapping[str, str], key: str, option: str) -> str:
    """A value that can be given as a key or as an option."""
    if key in mine and option and mine[key] != option:
        raise ConfigError(f"{key}: is given twice, as {mine[key]} and {option}")
    return mine.get(key, option)


def _flag(mine: Mapping[str, str], key: str, option: bool) -> bool:
    if mine.get(key, "true") not in ("true", "false"):
        raise ConfigError(f"{key}: expected true or false, got {mine[key]!r}")
    if option and mine.get(key) == "false":
        raise ConfigError(f"{key}: is given twice, as --{key} and as {key}=false")
    return option or mine.get(key) == "true"


def _aside(text: str) -> None:
    """For people: what is printed stays a table."""
    err_console.print(text, markup=False, soft_wrap=True)
