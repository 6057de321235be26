from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from amity.choosing import Cardless
from amity.config import load, parse, scalar
from amity.core import Decision, Plan, Row, View
from amity.errors import ConfigError, StrategyError
from amity.methods import methods
from amity.peer.proxies import proxies
from amity.registry import Registry
from amity.stages import stages
from amity.strategies import strategies
from amity.strategies.afind import Afind
from amity.strategies.friends import Friends
from amity.strategies.gossip import Gossip
from tests.conftest import simulate, tiny


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


def test_friends_are_looked_for_where_nothing_is_said() -> None:
    assert load().strategy.instance == Friends()
    assert load().strategy.label == "friends", "it has no presets: there is nothing to tune"


def test_naming_another_entry_drops_the_options_of_the_old_one() -> None:
    Path("c.toml").write_text('[strategy]\nname = "afind+"\ntau = 0.9\n')
    assert isinstance(load("c.toml", ["strategy=gossip"]).strategy.instance, Gossip)
    assert load("c.toml", ["strategy=afind+"]).strategy.options["tau"] == 0.9


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
        load(None, ["strategy=afind+"]).strategy.instance,
        load(None, ["strategy=afind+", "strategy.preset=literal"]).strategy.instance,
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
    mixed = load(
        None, ["strategy=afind+", "strategy.preset=literal", "strategy.protocol=exchange"]
    ).strategy.instance
    assert isinstance(mixed, Afind)
    assert (mixed.threshold, mixed.protocol) == ("literal", "exchange")


def test_replace_changes_presets_cleanly() -> None:
    config = load(None, ["strategy=afind+", "strategy.tau=0.9"]).replace(
        **{"strategy.preset": "paper"}
    )
    assert isinstance(config.strategy.instance, Afind)
    assert (config.strategy.instance.upsilon, config.strategy.label) == (0.1, "afind+:paper")


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("strategy=friends:k=3", "strategy=friends strategy.k=3"),
        ("strategy=afind+:paper:tau=0.8", "strategy=afind+ strategy.preset=paper strategy.tau=0.8"),
        ("strategy.name=afind+:paper", "strategy=afind+ strategy.preset=paper"),
        ("method=ditto:lam=2", "method=ditto method.lam=2"),
        ("model=mlp:hidden=9:layers=2", "model=mlp model.hidden=9 model.layers=2"),
        ("model=mlp:head=last", "model=mlp model.head=last"),
        ("data=synthetic:classes=3", "data=synthetic data.classes=3"),
        ("data=t.csv:label=y:drop=id", "data=table data.path=t.csv data.label=y data.drop=id"),
        ("data=here:size=8", "data=images data.path=here data.size=8"),
        ("partition=dirichlet:alpha=0.1", "partition=dirichlet partition.alpha=0.1"),
        ("shift=rotate:groups=3", "shift=rotate shift.groups=3"),
        ("shift=rotate:sizes=14+6", "shift=rotate shift.sizes=14,6"),
        ("topology=regular:k=4:online=0.5", "topology=regular topology.k=4 topology.online=0.5"),
        ("attack=noise:fraction=0.3", "attack=noise attack.fraction=0.3"),
        ("privacy=proxy:sigma=0.5", "privacy=proxy privacy.sigma=0.5"),
        ("mixer=trimmed:share=0.2", "mixer=trimmed mixer.share=0.2"),
        ("engine=local:workers=2", "engine=local engine.workers=2"),
        ("stages=krum:keep=2,fomo", "stages=krum,fomo stages.krum.keep=2"),
        (
            "strategy=gossip:k=3/krum:keep=2@ditto:lam=2",
            "strategy=gossip strategy.k=3 stages=krum stages.krum.keep=2 method=ditto method.lam=2",
        ),
    ],
)
def test_an_entry_is_named_with_its_options_everywhere(short: str, long: str) -> None:
    Path("here").mkdir()
    config = load(None, long.split())
    assert load(None, short.split()) == config
    key, _, value = short.partition("=")
    section = key.partition(".")[0]
    Path("c.toml").write_text(f'{section} = "{value}"\n')
    assert load("c.toml") == config
    assert load(None, {section: value}) == config
    if section != "data":  # other data suits other models
        assert load().replace(**{section: value}) == config


def test_a_name_with_an_at_sign_in_its_path_is_a_path() -> None:
    Path("me@home").mkdir()
    Path("me@home/mine.py").write_text("from amity.strategies.gossip import Gossip\n")
    config = load(None, ["strategy=me@home/mine.py:Gossip:k=3@ditto"])
    assert (config.strategy.instance, config.method.name) == (Gossip(k=3), "ditto")


def test_a_module_may_have_the_name_of_an_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("gossip.py").write_text(
        "from amity.strategies.gossip import Gossip\n\nclass Mine(Gossip):\n    pass\n"
    )
    monkeypatch.syspath_prepend(Path.cwd())
    assert load(None, ["strategy=gossip:Mine"]).strategy.label == "Mine"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("strategy=afnd", "unknown strategy 'afnd'; did you mean 'afind'?"),
        ("strategy=afind+ strategy.taw=1", "afind+: unknown option 'taw'; did you mean 'tau'?"),
        ("strategy=afind+ strategy.tau=-1", "afind+: tau should be greater than 0, got -1"),
        (
            "strategy=afind+ strategy.tau=high",
            "afind+: tau should be a valid number, unable to parse string as a number, got 'high'",
        ),
        (
            "strategy=afind+ strategy.threshold=norm",
            "afind+: threshold should be 'normalised', 'literal', 'softmax_p', 'mean', ",
        ),
        (
            "strategy=afind+ strategy.preset=papr",
            "afind+.preset: unknown preset 'papr'; did you mean 'paper'?",
        ),
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
        ("per=3", "unknown key 'per'; did you mean peers=3?"),
        ("peer=3", "unknown key 'peer'; did you mean peers=3?"),
        ("clients=3", "unknown key 'clients'; did you mean peers=3?"),
        ("lr=0.1", "unknown key 'lr'; did you mean train.lr=0.1?"),
        ("train_lr=0.1", "unknown key 'train_lr'; did you mean train.lr=0.1?"),
        ("epoch=2", "unknown key 'epoch'; did you mean train.epochs=2?"),
        (
            "tau=0.8",
            "unknown key 'tau'; did you mean strategy.tau=0.8? (an option of afind, afind+, dac)",
        ),
        ("strategy=afind+ tau=0.8", "unknown key 'tau'; did you mean strategy.tau=0.8?"),
        ("alpha=1", "unknown key 'alpha'; did you mean partition.alpha=1? (an option of dirichlet"),
        ("log=tensorboard", "unknown key 'log'; did you mean sinks=tensorboard?"),
        ("dataset=digits", "unknown key 'dataset'; did you mean data=digits?"),
        ("net.deadline=3", "unknown key 'net'; net.* is for `amity swarm` and `amity peer`"),
        ("seeds=0,1", "unknown key 'seeds'; several seeds are for `amity compare`"),
        ("colour=red", "unknown key 'colour'; known: attack, "),
        ("data=afile", "unknown dataset 'afile'; known: arrays, cifar10, "),
        ("strategy=friends:proxy=grad", "friends: proxy should show two halves, as twins and"),
        ("strategy=friends:q=3", "friends: unknown option 'q'; known: k, proxy, sketch"),
        (
            "strategy.tau=0.8",
            "friends: unknown option 'tau', which belongs to afind, afind+, dac; friends has k,",
        ),
        ("data=digits:n=3", "digits: unknown option 'n'"),
        ("topology=ring:k=2", "ring: unknown option 'k', which belongs to regular, small_world;"),
        ("strategy=gossip:k=3 strategy.k=4", "strategy.k: is given twice, 3 and 4; leave one out"),
        (
            "strategy=gossip strategy.name=pens",
            "strategy.name: is given twice, 'gossip' and 'pens'; leave one out",
        ),
        ("strategy=gossip:k=3:k=4", "strategy: 'gossip:k=3:k=4' gives k twice"),
        ("strategy=gossip@dito", "unknown method 'dito'; did you mean 'ditto'?"),
        (
            "strategy=gossip/krum stages=fomo",
            "stages: is given twice, in strategy=gossip/krum and by itself; leave one out",
        ),
        ("shift=rotate:groups=3:sizes=1+1", "shift: groups=3, but sizes=1,1 makes 2; leave one"),
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
        ("strategy.k=true", "friends: k should not be true; give a value"),
        ("device=meta", "device: 'meta' is not available"),
        (
            "strategy=afind+ strategy.protocol=visit strategy.proxy=delta",
            "afind+: protocol=visit knows neighbours by proxy=grad only",
        ),
        (
            "strategy=afind+ strategy.preset=paper strategy.proxy=feature_mean_centered",
            "afind+: proxy=feature_mean_centered needs the cards",
        ),
        (
            "strategy=afind+ strategy.proxy=grat",
            "afind+: proxy should be body_drift, delta, feature_mean,",
        ),
        (
            "strategy=afind+ strategy.proxy=no.py:Phi",
            "afind+: proxy 'no.py:Phi': cannot import 'no.py'",
        ),
        ("strategy=afind+ strategy.bits=8", "afind+: bits should be 1 or 32, got 8"),
        ("stages=simgate:proxy=grat", "simgate: proxy should be body_drift, delta, feature_mean,"),
        (
            "strategy=amity.core:Ask2",
            "strategy 'amity.core:Ask2': core.py has no class 'Ask2'; did you mean 'Ask'?",
        ),
        ("device=abacus", "device: 'abacus' is not available on this machine; use device=cpu"),
    ],
)
def test_every_mistake_gets_one_line_with_the_remedy(words: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(None, words.split())
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", [entry.name for entry in proxies])
def test_every_proxy_of_the_table_can_be_named(name: str) -> None:
    strategy = load(None, ["strategy=afind+", f"strategy.proxy={name}"]).strategy.instance
    assert isinstance(strategy, Afind)
    assert strategy.card.kind == proxies.made(name)
    assert strategy.card.lasting == (name in ("grad_ref", "twins", "twins_body"))


@dataclass(frozen=True)
class Careful(Cardless):
    """Measures on examples that nobody trains on."""

    held_out: ClassVar[float] = 0.25

    def decide(self, view: View, row: Row) -> Plan:
        yield from ()
        return Decision({view.me: 1.0})


def test_who_wants_examples_held_out_says_so_itself() -> None:
    assert load(None, {"strategy": Careful}).partition.instance.validation == 0.25
    assert load(None, {"stages": [Careful]}).partition.instance.validation == 0.25
    assert load(None, ["stages=fomo"]).partition.instance.validation == 0.1
    said = load(None, {"strategy": Careful, "partition.validation": 0.5})
    assert said.partition.instance.validation == 0.5
    assert load(None, []).partition.instance.validation == 0.0


OWN = {
    "Bare": (
        "class Bare(amity.Cardless):\n"
        "    def decide(self, view, row):\n"
        "        yield from ()\n"
        "        return amity.Decision({view.me: 1.0})\n",
        "Bare is a class without @dataclass; put @dataclass(frozen=True) above it",
    ),
    "Heir": (
        "class Heir(Gossip):\n    extra: int = 3\n",
        "Heir, which has the field 'extra', is a class without @dataclass; put",
    ),
    "Silent": (
        "@dataclass(frozen=True)\n"
        "class Silent(amity.Cardless):\n"
        "    def decide(self, view, row):\n"
        "        return amity.Decision({view.me: 1.0})\n",
        "Silent.decide has no yield, so it is no generator; if it asks nothing, write `yield from",
    ),
    "thing": ("thing = 3\n", "thing is no class, but int"),
    "Nearset": ("Nearest = Gossip\n", "mine.py has no class 'Nearset'; did you mean 'Nearest'?"),
}


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("key", ["strategy", "stages"])
def test_what_was_forgotten_in_a_class_of_ones_own_is_named(name: str, key: str) -> None:
    code, message = OWN[name]
    head = (
        "from dataclasses import dataclass\n\nimport amity\n"
        "from amity.strategies.gossip import Gossip\n\n"
    )
    Path("mine.py").write_text(head + code)
    with pytest.raises(ConfigError) as caught:
        load(None, [f"{key}=mine.py:{name}"])
    assert message in str(caught.value)
    space: dict[str, Any] = {"__name__": "notebook"}
    exec(head + code, space)
    if name in ("Bare", "Heir", "Silent"):
        with pytest.raises(ConfigError) as caught:
            load(None, {key: space[name]})
        assert message in str(caught.value)


def test_who_hands_on_anothers_plan_needs_no_yield_and_a_plan_that_is_none_is_named() -> None:
    @dataclass(frozen=True)
    class HandsOn(Cardless):
        def decide(self, view: View, row: Row) -> Plan:
            return Gossip().decide(view, row)

    @dataclass(frozen=True)
    class Hidden(Cardless):
        def decide(self, view: View, row: Row) -> Plan:
            return made(view)

    def made(view: View) -> Any:
        return Decision({view.me: 1.0})

    with simulate(tiny(strategy=HandsOn, rounds=1)) as simulation:
        simulation.round()
    with (
        simulate(tiny(strategy=Hidden, rounds=1)) as simulation,
        pytest.raises(StrategyError, match=r"strategy Hidden, peer-00, round 0: TypeError: decide"),
    ):
        simulation.round()


def test_no_strategy_stage_method_or_proxy_is_known_by_name(repository: Path) -> None:
    names = {entry.name for kind in (strategies, stages, methods, proxies) for entry in kind}
    folder = repository / "src" / "amity"
    files = [*(folder / "config").glob("*.py"), folder / "lab" / "estimate.py"]
    known = {
        (file.name, str(node.value))
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and node.value in names
    }
    assert known == {("sections.py", name) for name in ("friends", "finetune", "local")}, (
        "only what a section is where nothing is said"
    )


def test_a_home_may_be_a_module_or_a_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = (
        "from dataclasses import dataclass\n"
        "from {where} import kinds\n"
        '@kinds.register("{name}")\n'
        "@dataclass(frozen=True)\n"
        "class {name}:\n    pass\n"
    )
    registry = "from amity.registry import Registry\nkinds = Registry('kind', home='{home}')\n"
    (tmp_path / "kinds_of_module.py").write_text(registry.format(home="lone_home"))
    (tmp_path / "lone_home.py").write_text(own.format(where="kinds_of_module", name="alone"))
    (tmp_path / "kinds_of_package.py").write_text(registry.format(home="wide_home"))
    (tmp_path / "wide_home").mkdir()
    (tmp_path / "wide_home" / "__init__.py").write_text("")
    for name in ("one", "two"):
        text = own.format(where="kinds_of_package", name=name)
        (tmp_path / "wide_home" / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    for module, found in (("kinds_of_module", ["alone"]), ("kinds_of_package", ["one", "two"])):
        kinds = importlib.import_module(module).kinds
        assert [entry.name for entry in kinds] == found


def test_the_engines_are_known_without_torch() -> None:
    code = (
        "import sys; from amity.config import SECTIONS;"
        "print(*(e.name for e in SECTIONS['engine'].registry), 'torch' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["local", "ray", "False"]


def test_a_name_that_is_taken_is_refused() -> None:
    kinds: Registry[Any] = Registry("kind")
    kinds.register("mine")(Careful)
    assert kinds.register("mine")(Careful) is Careful, "a cell that is run again is no mistake"
    with pytest.raises(ConfigError, match=r"kind 'mine': is the name of .*Careful already"):
        kinds.register("mine")(Gossip)


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
