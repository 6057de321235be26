"""What is said of every option: read from the typed classes, complete, and true."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from amity.config import PARTS, SCALARS, SECTIONS, STAGE, TRAINING, Config, load
from amity.config.catalogue import run_options
from amity.errors import ConfigError
from amity.lab.catalogue import kinds, options
from amity.registry import Option, meanings, options_of
from amity.registry.explained import WORDS
from tests.conftest import Call

KNOWN = {*WORDS.values(), "name", "seconds", "text or whole number"}


@dataclass(frozen=True)
class Base:
    """A class of options."""

    left: Annotated[int, Field(ge=1)] = 3
    """How many
    are left."""


@dataclass(frozen=True)
class Own(Base):
    """Options of all kinds."""

    wait: Annotated[float, Field(gt=0, le=60), "seconds"] = 1.5
    """How long to wait."""
    mode: Literal["a", "b"] = "b"
    loose: Annotated[float, Field(ge=0)] | Literal["auto"] = "auto"
    """Half of it."""
    names: tuple[str, ...] = ()
    yes: bool = False
    count: Annotated[int, Field(ge=0, le=2**31 - 1)] = dataclasses.field(default=7)


def test_an_option_is_told_by_its_class() -> None:
    told = {
        option.key: option for option in options_of(Own, "own.", of="it", defaults={"yes": True})
    }
    assert told["own.left"] == Option(
        "own.left", "whole number", 3, "≥ 1", "How many are left.", "it"
    )
    assert told["own.wait"].allowed == "seconds > 0 and ≤ 60"
    assert (told["own.mode"].allowed, told["own.mode"].meaning) == ("a | b", "")
    assert told["own.loose"].allowed == "number ≥ 0, or auto"
    assert (told["own.names"].type, told["own.names"].shown) == ("list", '""')
    assert (told["own.yes"].allowed, told["own.yes"].shown) == ("true or false", "true")
    assert told["own.count"].allowed == "whole number ≥ 0", "the largest number is a machine's"


def test_a_class_without_source_has_options_without_meanings() -> None:
    mine = dataclasses.make_dataclass("Mine", [("k", int, 3)])
    assert meanings(mine) == {}
    assert [option.shown for option in options_of(mine)] == ["3"]


def test_every_option_says_what_it_means() -> None:
    silent = [f"{o.key} of {o.of}" for o in options() if not re.fullmatch(r"\S.*[.)]", o.meaning)]
    assert silent == [], "put a docstring below the field"
    assert {option.type for option in options()} <= KNOWN


def test_no_option_is_left_out() -> None:
    """The fields of every class that a config is made of, counted by hand."""
    listed = [(option.key, option.of) for option in run_options()]
    assert len(set(listed)) == len(listed)
    assert {key for key, _ in listed} >= {*SCALARS, *SECTIONS, "stages"}
    for part, cls in PARTS.items():
        assert {(f"{part}.{f.name}", "") for f in dataclasses.fields(cls)} <= set(listed)
    for key, section in {**SECTIONS, "stages": STAGE}.items():
        for entry in section.registry:
            dots = f"{key}.{entry.name}." if key == "stages" else f"{key}."
            assert {(dots + name, entry.name) for name in entry.options()} <= set(listed)
    for key, registry in TRAINING.items():
        assert (f"train.{key}", "") in listed
        for entry in registry:
            assert {(f"train.{name}", entry.name) for name in entry.options()} <= set(listed)
    written_by_amity = {"extended"}
    keys = {f.name for f in dataclasses.fields(Config)} - written_by_amity - TRAINING.keys()
    assert keys <= {key.partition(".")[0] for key, _ in listed}
    assert {"net.deadline", "peer.name", "sinks=plain:every"} <= {o.key for o in options()}


def outside(option: Option) -> float | None:
    """The nearest value that is not allowed; None if the range tells of none."""
    found = re.match(r"(≥|>)? ?(-?[\d.]+)", option.range)
    if option.type not in ("number", "whole number") or " | " in option.range or not found:
        return None
    low = float(found[2])
    if found[1] == ">":
        return low
    return int(low) - 1 if option.type == "whole number" else low - 0.5


def given(option: Option, value: Any) -> dict[str, Any]:
    if not option.of:
        section = option.key.partition(".")[0]
        needed = {"shift": "rotate"}.get(section)
        return {option.key: value} | ({section: needed} if needed else {})
    if option.key.startswith("stages."):
        return {"stages": option.of, option.key: value}
    for key, registry in TRAINING.items():
        if option.key.startswith("train.") and option.of in registry:
            return {f"train.{key}": option.of, option.key: value}
    return {option.key.partition(".")[0]: option.of, option.key: value}


@pytest.mark.parametrize("kind", [kind.name for kind in kinds()])
def test_what_is_said_to_be_allowed_is_what_a_config_allows(kind: str) -> None:
    """The default is right, and what lies just outside of the range is refused."""
    mine = [o for o in run_options() if o.key.partition(".")[0] == kind and "." in o.key]
    for option in mine:
        if option.default not in (dataclasses.MISSING, None) and option.key != "data.path":
            load(None, given(option, option.default))
        value = outside(option)
        if value is not None:
            with pytest.raises(ConfigError):
                load(None, given(option, value))


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("strategy.afind+", r"strategy\.tau=0\.2  number > 0\n +τ, factor on the threshold"),
        ("strategy.afind+", r"strategy\.preset=tuned  paper \| literal \| tuned \| wary"),
        ("train", r"train\.lr=0\.01  number > 0\n +η_w: learning rate"),
        (
            "train",
            r"train\.optimiser=(.|\n)*train\.optimiser=adamw (.|\n)*train\.beta1=0\.9.*\n +β₁",
        ),
        (
            "train",
            r"train\.schedule=(.|\n)*train\.schedule=cosine (.|\n)*train\.floor=0\.0.*\n +f: ",
        ),
        ("train.optimiser", r"train\.optimiser=  How gradients become steps"),
        ("schedule", r"train\.schedule=  How learning rates go over the rounds"),
        ("adamw", r"train\.optimiser=adamw (.|\n)*train\.weight_decay=0\.01  number ≥ 0\n +λ"),
        ("net", r"net\.deadline=60\.0  seconds > 0 and ≤ 86400\n"),
        ("peer", r"peer\.name=\(must be given\)  text\n"),
        ("eval", r"eval\.every=1  whole number ≥ 1\n"),
        ("run", r"seed=0  whole number ≥ 0\n"),
        ("peers", r"peers=100  whole number 1 to 1000000\n"),
        ("train.lr", r"^  train\.lr=0\.01"),
        ("tau", r"strategy\.tau=20\.0  number 0 to 1000000  \(of dac\)"),
        ("gossip", r"strategy=gossip  Average with k neighbours"),
        ("fomo", r"strategy=fomo (.|\n)*stages=fomo "),
        ("strategy=gossip", r"strategy\.k=10"),
        ("topology.ring", r"with any topology:\n  topology\.redraw=0"),
        ("stages.krum", r"stages\.krum\.keep=0"),
        ("sinks.plain", r"sinks=plain:every=5\.0  number ≥ 0"),
        ("proxies.grad", r"strategy\.proxy=grad  ∇"),
        ("strategies", r"amity list strategy\.friends"),
        (
            "strategy.mine.py:Mine",
            r"strategy=mine\.py:Mine  Of one's own\.\n  strategy\.k=3.*\n +K\.",
        ),
    ],
)
def test_list_explains_a_part_an_entry_or_an_option(call: Call, what: str, said: str) -> None:
    Path("mine.py").write_text(
        "from dataclasses import dataclass\nimport amity\n@dataclass(frozen=True)\n"
        "class Mine(amity.Cardless):\n    '''Of one's own.'''\n    k: int = 3\n    '''K.'''\n"
        "    def decide(self, view, row):\n        yield from ()\n"
    )
    code, out, err = call(f"list {what}")
    assert (code, err) == (0, "")
    assert re.search(said, out)


def test_list_knows_what_was_meant(call: Call) -> None:
    assert "unknown kind 'gosip'; did you mean 'gossip'?" in call("list gosip")[2]
    assert (
        "unknown kind 'strategy.gosip'; did you mean 'strategy.gossip'"
        in call("list strategy.gosip")[2]
    )
    assert "unknown kind 'things'; known: attack, " in call("list things")[2]
