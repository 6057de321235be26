"""deploy/: the page is run as it stands, on loopback; units, images and alerts are checked as far
as one machine can."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from amity import cli
from amity.net.ops.swarm import free_ports
from amity.processes import die_with
from tests.conftest import Call

THREE = ("hospital-a", "hospital-b", "hospital-c")
PATIENCE = 600.0
SECRETS = re.compile(r"key\.pem|PRIVATE|password|token|secret", re.IGNORECASE)


# -- the page --------------------------------------------------------------------------------------


def life(words: list[str], log: Path, parent: int) -> None:
    """`amity WORDS` in a process that was forked, as if from a shell with `> log 2>&1`."""
    die_with(parent)
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(target, stream)
    sys.stdout, sys.stderr = (
        os.fdopen(os.dup(1), "w", buffering=1),
        os.fdopen(os.dup(2), "w", buffering=1),
    )
    sys.argv, code = ["amity", *words], 1
    try:
        cli.main()
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        os._exit(code)


class Page:
    """Runs the `sh` blocks of a page: on loopback, with one free port, and each peer with metrics
    of its own."""

    def __init__(self, text: str, call: Call) -> None:
        self._call, self.port = call, free_ports(1)[0]
        self.metrics = dict(
            zip(
                ("hospital-a", "hospital-b", "hospital-c", "hospital-d", "relay"),
                free_ports(5),
                strict=True,
            )
        )
        text = text.replace("10.0.0.", "127.0.0.").replace("7447", str(self.port))
        self.blocks = [
            block.strip().splitlines()
            for block in re.findall(r"^```sh\n(.*?)^```", text, re.S | re.M)
        ]
        self.processes: dict[str, Any] = {}
        self.said = ""

    def run(self, block: list[str]) -> None:
        for line in block:
            words = shlex.split(line.removesuffix("&"))
            if words[0] != "amity":
                subprocess.run(["bash", "-euc", line], check=True)
            elif line.endswith("&"):
                log = Path(f"{words[-1]}.log")
                process = multiprocessing.get_context("fork").Process(
                    target=life, args=(words[1:], log, os.getpid())
                )
                process.start()
                self.processes[words[-1]] = process
            elif words[1:3] == [
                "peer",
                "check",
            ]:  # opens a network, so not in this process, which forks
                done = subprocess.run(
                    [sys.executable, "-m", *words], capture_output=True, text=True, check=False
                )
                self.said = done.stdout + done.stderr
            else:
                code, out, error = self._call(" ".join(words[1:]))
                assert code == 0, error
                self.said = out
                if words[1:3] == ["peer", "init"]:
                    self._tune(Path(words[3]))

    def _tune(self, folder: Path) -> None:
        """What the page leaves to the reader: a metrics port of its own, and what to learn."""
        text = (folder / "peer.toml").read_text()
        text = re.sub(r"metrics = \d+", f"metrics = {self.metrics[folder.name]}", text)
        text = re.sub(r"rounds = \d+", "rounds = 100000\ntrain.epochs = 1", text)
        (folder / "peer.toml").write_text(text)

    def log(self, name: str, event: str) -> list[dict[str, Any]]:
        path = Path(name) / "state" / "audit.jsonl"
        whole = path.read_bytes().rpartition(b"\n")[0] if path.exists() else b""
        return [
            record for record in map(json.loads, whole.splitlines()) if record["event"] == event
        ]

    def used(self, name: str) -> set[str]:
        return {record["peer"] for record in self.log(name, "used")}

    def stop(self) -> None:
        for process in self.processes.values():
            if process.is_alive():
                os.kill(process.pid, signal.SIGTERM)
        for process in self.processes.values():
            process.join(10)
            if process.is_alive():
                process.kill()
                process.join()


def until(what: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


@pytest.fixture
def page(repository: Path, call: Call) -> Iterator[Page]:
    page = Page((repository / "deploy" / "README.md").read_text(), call)
    try:
        yield page
    finally:
        page.stop()


def exprs(repository: Path) -> str:
    rules = yaml.safe_load((repository / "deploy" / "prometheus" / "alerts.yaml").read_text())
    return "\n".join(rule["expr"] for group in rules["groups"] for rule in group["rules"])


def test_the_page_leads_from_nothing_to_three_hospitals_and_through_changes_of_members(
    page: Page, repository: Path
) -> None:
    authority, keys, signing, roster, check, start, taking, renewal, joining, removal = page.blocks
    for block in (authority, keys, signing, roster, check):
        page.run(block)
    verdicts = [line.split(maxsplit=2) for line in page.said.splitlines()]
    assert {what for verdict, what, *_ in verdicts if verdict == "BAD"} == {"reach"}, page.said
    assert {what for verdict, what, *_ in verdicts if verdict == "ok"} == {
        "keys", "roster", "entry", "address", "clock", "port", "data",
    }  # fmt: skip
    page.run(start)
    until(lambda: all(page.used(name) for name in THREE))
    with urllib.request.urlopen(
        f"http://127.0.0.1:{page.metrics['hospital-a']}/metrics", timeout=60
    ) as answer:
        shown = answer.read().decode()
    wanted = set(re.findall(r"\bamity_\w+", exprs(repository)))
    assert wanted
    assert wanted <= set(re.findall(r"^(amity_\w+)", shown, re.M))
    assert re.search(r'^amity_events_total\{event="\w+",peer="[^"]*",why="[^"]*"\}', shown, re.M)

    until(lambda: [*Path("hospital-a/state/checkpoint").glob("round-*.json")])
    page.run(taking)  # while all of them run
    assert page.said == "hospital-a/export: last.safetensors, MODEL.md\n"
    assert "3 members of the network 'trial'" in Path("hospital-a/export/MODEL.md").read_text()

    page.run(renewal)
    until(lambda: [r for r in page.log("hospital-a", "certificate") if r["why"] == "renewed"])

    page.run(joining)
    until(
        lambda: page.used("hospital-d") and any("hospital-d" in page.used(name) for name in THREE)
    )

    page.run(removal)
    until(lambda: not page.processes["hospital-c"].is_alive())
    for name in ("hospital-a", "hospital-b", "hospital-d"):
        until(
            lambda name=name: [
                r
                for r in page.log(name, "roster")
                if (r["peer"], r["why"]) == ("hospital-c", "removed")
            ]
        )
        assert page.processes[name].is_alive()
    page.stop()
    codes = {name: process.exitcode for name, process in page.processes.items()}
    assert codes == dict.fromkeys((*THREE, "hospital-d", "relay"), 0), [
        p.read_text() for p in Path().glob("*.log")
    ]
    for name in ("hospital-a", "hospital-b", "hospital-d"):
        assert {r["why"] for r in page.log(name, "error")} == set()
    for file in ("audit.jsonl", "disclosed.jsonl", "metrics.jsonl", "edges.jsonl"):
        assert (Path("hospital-a/state") / file).stat().st_size > 0


def test_links_and_files_of_the_page_exist(repository: Path) -> None:
    text = (repository / "deploy" / "README.md").read_text()
    for target in re.findall(r"\]\((?!http)([^)]+)\)", text):
        assert (repository / "deploy" / target).exists(), target


# -- systemd ---------------------------------------------------------------------------------------


def needs(program: str, *probe: str) -> None:
    """Skip, and say so, where a program is not there or cannot do what is asked."""
    if shutil.which(program) is None:
        pytest.skip(f"no {program} on this machine")
    if (
        probe
        and subprocess.run([program, *probe], capture_output=True, check=False).returncode != 0
    ):
        pytest.skip(f"`{program} {' '.join(probe)}` does not work on this machine")


@pytest.fixture
def unit(repository: Path, tmp_path: Path) -> Path:
    """The unit, with the path of an amity that is installed."""
    text = (repository / "deploy" / "systemd" / "amity-peer@.service").read_text()
    path = tmp_path / "amity-peer@.service"
    path.write_text(text.replace("/opt/amity/bin/amity", f"{Path(sys.executable).parent}/amity"))
    return path


def test_systemd_takes_the_unit(unit: Path) -> None:
    needs("systemd-analyze")
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_unit_exposes_little(unit: Path) -> None:
    needs("systemd-analyze", "security", "--help")
    rate = ["systemd-analyze", "security", "--offline=true", "--threshold=20", str(unit)]
    done = subprocess.run(rate, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-300:]


# -- every command is one --------------------------------------------------------------------------


def commands(repository: Path) -> Iterator[list[str]]:
    deploy = repository / "deploy"
    for line in (deploy / "systemd" / "amity-peer@.service").read_text().splitlines():
        if line.startswith("ExecStart="):
            yield line.split()[1:]
    yield instructions(repository)["CMD"]
    for service in compose(repository)["services"].values():
        if "command" in service:
            yield service["command"]


def test_every_command_is_one_of_amity(repository: Path, call: Call) -> None:
    found = {" ".join(words[:-1]) for words in commands(repository)}
    assert found == {"peer run", "relay"}
    for words in found:
        code, out, _ = call(f"{words} --help")
        assert code == 0
        assert "DIR" in out


# -- Docker ----------------------------------------------------------------------------------------


IMAGES = {"Dockerfile": "'.[peers]'", "simulator.Dockerfile": "'.[tables,privacy,live]'"}


def instructions(repository: Path, file: str = "Dockerfile") -> dict[str, Any]:
    """The instructions of the last stage; those in exec form as lists."""
    text = (repository / "deploy" / "docker" / file).read_text().replace("\\\n", " ")
    stage = text.rpartition("\nFROM ")[2]
    found: dict[str, Any] = {}
    for name, rest in re.findall(r"^([A-Z]+) +(.*)$", stage, re.M):
        found[name] = json.loads(rest) if rest.startswith("[") else rest
    return found


def compose(repository: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(
        (repository / "deploy" / "docker" / "compose.yaml").read_text()
    )
    return found


@pytest.mark.parametrize("name", IMAGES)
def test_the_image_runs_as_nobody_special_and_holds_no_secret(repository: Path, name: str) -> None:
    docker = repository / "deploy" / "docker"
    last = instructions(repository, name)
    assert int(last["USER"].partition(":")[0]) > 0
    assert last["ENTRYPOINT"] == ["amity"]
    if name == "Dockerfile":
        assert "127.0.0.1:9464/metrics" in last["HEALTHCHECK"]
    text = (docker / name).read_text()
    assert not SECRETS.search(text)
    ignored = (docker / f"{name}.dockerignore").read_text().split("\n")
    allowed = {line[1:] for line in ignored if line.startswith("!")}
    assert "*" in ignored
    copied = {
        word
        for line in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.M)
        for word in line.split()
    }
    assert copied == allowed
    assert all((repository / name).exists() for name in copied)
    assert IMAGES[name] in text
    assert "PIP_CONSTRAINT=/src/constraints.txt" in text
    assert re.search(r"^torch==", (repository / "constraints.txt").read_text(), re.M)


def test_compose_gives_each_container_its_own_folder_and_no_rights(repository: Path) -> None:
    services = compose(repository)["services"]
    assert set(services) == {"hospital-a", "hospital-b", "hospital-c", "relay"}
    for name, service in services.items():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["user"] != "0"
        assert service["hostname"] == name
        (volume,) = service["volumes"]
        assert volume.endswith(f"/{name}:/var/lib/amity")
        assert "environment" not in service
        assert not SECRETS.search(json.dumps(service["volumes"]))
        assert (repository / service["build"]["dockerfile"]).exists()


def test_docker_takes_the_compose_file(repository: Path) -> None:
    needs("docker", "compose", "version")
    file = repository / "deploy" / "docker" / "compose.yaml"
    subprocess.run(["docker", "compose", "-f", str(file), "config", "--quiet"], check=True)


def test_docker_takes_the_dockerfile(repository: Path) -> None:
    needs("docker", "info")
    needs("docker", "buildx", "version")
    file = repository / "deploy" / "docker" / "Dockerfile"
    subprocess.run(["docker", "build", "--check", "-f", str(file), str(repository)], check=True)


# -- Prometheus ------------------------------------------------------------------------------------


def test_alerts_speak_of_events_that_happen(repository: Path) -> None:
    text = exprs(repository)
    sources = "".join(
        path.read_text() for path in (repository / "src" / "amity" / "net").glob("*.py")
    )
    for event in set(re.findall(r'event="(\w+)"', text)):
        assert f'audit("{event}"' in sources
    scrape = yaml.safe_load((repository / "deploy/prometheus/scrape.yaml").read_text())
    assert set(re.findall(r'job="(\w+)"', text)) == {
        one["job_name"] for one in scrape["scrape_configs"]
    }
    for group in yaml.safe_load((repository / "deploy/prometheus/alerts.yaml").read_text())[
        "groups"
    ]:
        for rule in group["rules"]:
            assert set(rule) <= {"alert", "expr", "for", "annotations"}
            assert rule["expr"].count("(") == rule["expr"].count(")")


def test_the_template_has_the_ports_that_deploy_speaks_of(call: Call, repository: Path) -> None:
    assert call("peer init one name=one host=127.0.0.1")[0] == 0
    who = tomllib.loads(Path("one/peer.toml").read_text())["peer"]
    assert (who["listen"], who["metrics"]) == ("127.0.0.1:7447", 9464)
