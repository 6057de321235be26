from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amity.config import load, parse, scalar
from amity.errors import ConfigError
from amity.strategies.afind import Afind
from amity.strategies.gossip import Gossip


def test_the_line_of_the_documentation_is_understood() -> None:
    words = (
        "data=digits peers=50 rounds=100 seed=1 partition=dirichlet partition.alpha=0.1"
        " topology=full model=mlp strategy=afind+ strategy.tau=0.8 strategy.preset=paper"
        " method=finetune train.lr=0.01 train.epochs=5 eval.every=1"
    )
    config = load(None, words.split())
    strategy = config.strategy.instance
    assert isinstance(strategy, Afind)
    assert (strategy.tau, strategy.loss_side, config.strategy.label) == (
        0.8,
        "neighbour",
        "afind+:paper",
    )
    assert (config.peers, config.rounds, config.seed, config.train.lr, config.train.epochs) == (
        50,
        100,
        1,
        0.01,
        5,
    )


def test_what_suits_the_dataset_fills_gaps_and_is_overridden_by_file_and_words() -> None:
    Path("c.toml").write_text('peers = 7\nstrategy = "gossip"\n[train]\nlr = 0.5\n')
    config = load("c.toml", ["train.lr=0.25"])
    assert (config.peers, config.rounds, config.train.lr, config.train.batch) == (7, 25, 0.25, 8)
    assert isinstance(config.strategy.instance, Gossip)


def test_naming_another_entry_drops_the_options_of_the_old_one() -> None:
    Path("c.toml").write_text('[strategy]\nname = "afind+"\ntau = 0.9\n')
    assert isinstance(load("c.toml", ["strategy=gossip"]).strategy.instance, Gossip)
    assert load("c.toml", ["strategy=afind+"]).strategy.instance.tau == 0.9  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "words",
    [[], ["strategy=afind+", "strategy.preset=literal"], ["topology=ring", "topology.online=0.5"]],
)
def test_a_config_survives_toml(words: list[str]) -> None:
    config = load(None, words)
    Path("c.toml").write_text(config.to_toml())
    again = load("c.toml")
    assert again == config
    assert again.digest == config.digest


def test_presets_set_fields_and_given_options_win() -> None:
    tuned, literal = (
        load(None, []).strategy.instance,
        load(None, ["strategy.preset=literal"]).strategy.instance,
    )
    assert isinstance(tuned, Afind)
    assert isinstance(literal, Afind)
    assert (tuned.reprobe, tuned.loss_side, tuned.average, tuned.cut) == (
        "all",
        "requester",
        0.8,
        "draw",
    )
    assert (literal.threshold, literal.protocol, literal.include_self) == (
        "literal",
        "visit",
        False,
    )
    mixed = load(None, ["strategy.preset=literal", "strategy.protocol=exchange"]).strategy.instance
    assert isinstance(mixed, Afind)
    assert (mixed.threshold, mixed.protocol) == ("literal", "exchange")


def test_replace_changes_presets_cleanly() -> None:
    config = load(None, ["strategy.preset=tuned", "strategy.tau=0.9"]).replace(
        **{"strategy.preset": "paper"}
    )
    assert isinstance(config.strategy.instance, Afind)
    assert (config.strategy.instance.upsilon, config.strategy.label) == (0.1, "afind+:paper")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("strategy=afnd", "unknown strategy 'afnd'; did you mean 'afind'?"),
        ("strategy=afind+ strategy.taw=1", "afind+: unknown option 'taw'; did you mean 'tau'?"),
        ("strategy.tau=-1", "afind+: tau should be greater than 0, got -1"),
        (
            "strategy.tau=high",
            "afind+: tau should be a valid number, unable to parse string as a number, got 'high'",
        ),
        (
            "strategy.threshold=norm",
            "afind+: threshold should be 'normalised', 'literal', 'softmax_p', 'mean', ",
        ),
        ("strategy.preset=papr", "afind+.preset: unknown preset 'papr'; did you mean 'paper'?"),
        (
            "partition=dirichlet partition.alpha=0",
            "dirichlet: alpha should be greater than 0, got 0",
        ),
        ("topology=rng", "unknown topology 'rng'; did you mean 'ring'?"),
        ("topology=file", "file: option 'path' must be given"),
        ("data=digts", "unknown dataset 'digts'; did you mean 'digits'?"),
        ("model=resnet", "unknown model 'resnet'; did you mean 'resnet18_gn'?"),
        ("method=finetun", "unknown method 'finetun'; did you mean 'finetune'?"),
        ("peers=0", "peers: should be greater than or equal to 1, got 0"),
        (
            "peers=many",
            "peers: should be a valid integer, unable to parse string as an integer, got 'many'",
        ),
        ("rounds=-3", "rounds: should be greater than or equal to 1, got -3"),
        ("per=3", "unknown key 'per'; did you mean 'peers'?"),
        ("train.lr=0", "train: lr should be greater than 0, got 0"),
        ("train.lrr=1", "train: unknown option 'lrr'; did you mean 'lr'?"),
        ("topology.online=2", "topology: online should be less than or equal to 1, got 2"),
        ("train=fast", "train: expected train.option=value, got 'fast'"),
        ("peers.x=3", "peers: is a single value, got peers.x="),
        ("peers", "expected key=value, got 'peers'"),
        ("strategy=nowhere.module:Mine", "unknown strategy 'nowhere.module'; known: afind"),
        ("strategy=afnd:paper", "unknown strategy 'afnd'; did you mean 'afind'?"),
        (
            "strategy=nowhere.py:Mine",
            "strategy 'nowhere.py:Mine': cannot import 'nowhere.py' (FileNotFoundError: ",
        ),
        (
            "strategy=amity.data.digits:Digits",
            "strategy 'amity.data.digits:Digits': Digits has no method 'decide'",
        ),
        ("peers=3 peers=4", "peers: is given twice"),
        ("rounds=true", "rounds: should be a whole number, got true"),
        ("train.lr=inf", "train: lr should be a finite number, got inf"),
        ("strategy.k=true", "afind+: k should not be true; give a value"),
        ("device=meta", "device: 'meta' is not available"),
        (
            "strategy.protocol=visit strategy.proxy=delta",
            "afind+: protocol=visit knows neighbours by proxy=grad only",
        ),
        (
            "strategy.preset=paper strategy.proxy=feature_mean_centered",
            "afind+: proxy=feature_mean_centered needs the cards",
        ),
        (
            "strategy=amity.core:Ask2",
            "strategy 'amity.core:Ask2': amity.core has no dataclass 'Ask2'",
        ),
        ("device=abacus", "device: 'abacus' is not available on this machine; use device=cpu"),
    ],
)
def test_every_mistake_gets_one_line_with_the_remedy(words: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(None, words.split())
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_files_that_are_absent_or_no_toml_are_refused() -> None:
    Path("bad.toml").write_text("peers = = 3")
    with pytest.raises(ConfigError, match=r"absent.toml: cannot be read"):
        load("absent.toml")
    with pytest.raises(ConfigError, match=r"bad.toml: is not valid TOML"):
        load("bad.toml")


@pytest.mark.parametrize(
    ("text", "value"),
    [("3", 3), ("0.5", 0.5), ("true", True), ("afind+", "afind+"), ("1,2", "1,2")],
)
def test_words_become_numbers_where_they_are_some(text: str, value: Any) -> None:
    assert scalar(text) == value
    assert parse([f"a.b={text}"]) == {"a.b": value}
