"""`amity serve`: a real server on a real port, and everything that it refuses."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amity
from amity.lab.export import export
from amity.use.prediction import predict
from amity.use.server import MOST_BYTES
from tests.conftest import Call

Answer = tuple[int, Any]
JSON = {"content-type": "application/json"}


def trained(folder: Path, table: bool) -> Path:
    """A model of a table with a category and a rule for missing values, or of images."""
    draw = np.random.default_rng(0)
    ill = np.arange(80) % 2 == 1
    age, sex = 50 + 20 * ill + draw.normal(size=80), draw.choice(["f", "m"], 80)
    rows = [
        f"{a:.1f},{s},{'ill' if i else 'healthy'}" for a, s, i in zip(age, sex, ill, strict=True)
    ]
    (folder / "t.csv").write_text("age,sex,diagnosis\n" + "\n".join(rows) + "\n,f,ill\n")
    small = {"peers": 2, "rounds": 4, "strategy": "gossip", "engine.workers": 1}
    given: dict[str, Any] = {"train.lr": 0.1, "train.batch": 8, "partition": "iid"}
    data = {"name": "table", "path": str(folder / "t.csv"), "label": "diagnosis"}
    given["data"] = {**data, "missing": "median"}
    amity.run(amity.load(None, {**small, **(given if table else {})}), folder / "r")
    return export(folder / "r", "peer-00", folder / "m")[0].folder


@contextmanager
def serving(model: Path, *words: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """`amity serve` as its user would start it; ends it by SIGTERM."""
    command = [sys.executable, "-W", "error", "-m", "amity", "serve", str(model), "port=0", *words]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    process = subprocess.Popen(command, **pipes, env=os.environ | {"PYTHONUNBUFFERED": "1"})
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert "answers at http://" in said, said + process.stdout.read()
        yield int(said.partition("/predict")[0].rpartition(":")[2]), process
    finally:
        process.terminate()
        process.wait(30)
        assert process.stdout is not None
        process.stdout.close()


def ask(
    port: int, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> Answer:
    text = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        line.request(method, path, text, JSON if headers is None else headers)
        answer = line.getresponse()
        return answer.status, json.loads(answer.read() or b"null")
    finally:
        line.close()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("table"), table=True)


@pytest.fixture(scope="module")
def port(model: Path) -> Iterator[int]:
    with serving(model) as (port, _):
        yield port


# -- what it answers -------------------------------------------------------------------------------


def test_rows_by_name_get_what_predict_says_of_the_same_table(model: Path, port: int) -> None:
    Path("new.csv").write_text("sex,age,who\nf,71.5,a\nm,48,b\nm,,c\n")
    wanted = predict(model, "new.csv", id="who")
    rows = [
        {"who": "a", "age": 71.5, "sex": "f"},
        {"sex": "m", "who": "b", "age": 48},
        {"who": "c", "sex": "m", "age": None},
    ]
    status, found = ask(port, "POST", "/predict", {"rows": rows, "id": "who"})
    assert status == 200
    assert [one["id"] for one in found["predictions"]] == ["a", "b", "c"]
    assert [one["label"] for one in found["predictions"]] == list(wanted.labels)
    assert [one["label"] for one in found["predictions"]][:2] == ["ill", "healthy"]
    for one, row in zip(found["predictions"], wanted.probabilities, strict=True):
        assert list(one["probabilities"].values()) == pytest.approx(row.tolist(), abs=1e-6)
    assert found["notes"] == [
        "missing values are the median of the training examples: 'age' 1 of 3 rows"
    ]


def test_it_says_that_it_is_well_and_what_it_takes(port: int) -> None:
    status, health = ask(port, "GET", "/health")
    assert (status, health["status"], health["classes"]) == (200, "ok", ["healthy", "ill"])
    status, page = ask(port, "GET", "/openapi.json")
    assert (status, page["openapi"]) == (200, "3.1.0")
    body = page["paths"]["/predict"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    row = body["properties"]["rows"]["items"]
    assert list(row["properties"]) == ["age", "sex"]
    assert {"type": "string", "enum": ["f", "m"]} in row["properties"]["sex"]["anyOf"]
    assert row["required"] == ["age", "sex"], "both may be null, but not forgotten"


def test_many_ask_at_once(port: int) -> None:
    def one(age: int) -> Answer:
        return ask(port, "POST", "/predict", {"rows": [{"age": age, "sex": "f"}]})

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(one, [40, 80] * 20))
    assert {status for status, _ in found} == {200}
    labels = [answer["predictions"][0]["label"] for _, answer in found]
    assert labels == ["healthy", "ill"] * 20


def test_images_are_arrays(tmp_path: Path) -> None:
    folder = trained(tmp_path, table=False)
    x = np.random.default_rng(1).uniform(0, 16, (2, 8, 8))
    np.save("x.npy", x)
    wanted = predict(folder, "x.npy")
    with serving(folder, "model=last") as (port, _):
        status, found = ask(port, "POST", "/predict", {"x": x.tolist()})
        assert status == 200
        assert [one["label"] for one in found["predictions"]] == list(wanted.labels)
        assert "id" not in found["predictions"][0]
        for body, said in (
            ({"x": [[1, 2]]}, "examples have shape (2,), the model expects (1, 8, 8)"),
            ({"x": [[1], [1, 2]]}, "the examples differ in shape"),
            ({"x": ["a"]}, "expected examples as numbers"),
            ({"rows": []}, "unknown key 'rows'; this model takes x"),
        ):
            status, found = ask(port, "POST", "/predict", body)
            assert status == 422
            assert said in found["error"]


# -- what it refuses -------------------------------------------------------------------------------

ROW = {"age": 60, "sex": "f"}


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"{", 400, "the body is not JSON"),
        (b'{"rows": [{"age": NaN}]}', 400, "NaN is no JSON; use null"),
        (b"[" * 100_000, 400, "the body is not JSON"),
        (b"\xff", 400, "the body is not JSON"),
        ([ROW], 400, "the body should be a JSON object, got list"),
        ({}, 422, "'rows' is missing; /openapi.json shows what is taken"),
        ({"rows": []}, 422, "'rows' should be a list of at least one example"),
        ({"rows": {"age": 1}}, 422, "'rows' should be a list of at least one example"),
        ({"rows": [3]}, 422, "row 1: should be an object of values by column, got 3"),
        ({"rows": [ROW, {**ROW, "age": [1]}]}, 422, "row 2: 'age' should be a single value"),
        ({"rows": [ROW, {"sax": 1}]}, 422, "row 2: lacks 'age', 'sex'; null stands for a missing"),
        ({"rows": [{**ROW, "age": "old"}]}, 422, "column 'age' has other things than numbers"),
        ({"rows": [ROW], "id": "who"}, 422, "row 1: has no 'who', which should be its id"),
        ({"rows": [ROW], "id": 3}, 422, "'id' should be the name of a key"),
        ({"rows": [ROW], "more": 1}, 422, "unknown key 'more'; this model takes rows and id"),
        ({"rows": [ROW] * 10_001}, 413, "10001 examples; at most 10000 may be sent at once"),
        (b" " * (MOST_BYTES + 1), 413, "the body is longer than 16 MiB"),
    ],
    ids=range(17),
)
def test_a_request_that_does_not_fit_is_answered_by_one_line(
    port: int, body: Any, status: int, said: str
) -> None:
    got, answer = ask(port, "POST", "/predict", body)
    assert (got, list(answer)) == (status, ["error"])
    assert said in answer["error"]
    assert "\n" not in answer["error"]


def test_other_hosts_paths_methods_and_kinds_of_content_are_refused(port: int) -> None:
    body = {"rows": [ROW]}
    for method, path, headers, status in (
        ("POST", "/predict", {**JSON, "host": "evil.example"}, 421),
        ("GET", "/health", {"host": f"evil.example:{port}"}, 421),
        ("GET", "/health", {"host": f"localhost:{port}"}, 200),
        ("GET", "/health", {"host": "[::1]:80"}, 200),
        ("POST", "/predict", {"content-type": "text/plain"}, 415),
        ("POST", "/predict", {}, 415),
        ("GET", "/predict", {}, 405),
        ("GET", "/", {}, 404),
        ("GET", "/docs", {}, 404),
    ):
        got, answer = ask(port, method, path, body if method == "POST" else None, headers)
        assert got == status, (method, path, headers, answer)
        assert status == 200 or list(answer) == ["error"]
    assert ask(port, "POST", "/predict", body)[0] == 200, "and it goes on"


def test_other_machines_may_ask_only_if_that_is_said(model: Path, call: Call) -> None:
    for host in ("0.0.0.0", "10.0.0.1", "example.org", "::"):
        code, _, err = call(f"serve {model} --host {host}")
        assert code == 2
        assert f"host: {host} is not this machine alone" in err
        assert len(err.splitlines()) == 1
    with serving(model, "host=0.0.0.0", "--insecure") as (port, process):
        assert process.stdout is not None
        assert "no password and no TLS" in process.stdout.readline()
        assert ask(port, "GET", "/health", headers={"host": "anything"})[0] == 200


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(model: Path, end: signal.Signals) -> None:
    with serving(model) as (port, process):
        assert ask(port, "GET", "/health")[0] == 200
        process.send_signal(end)
        assert process.stdout is not None
        assert process.stdout.read() == ""
        assert process.wait(30) == 0


def test_misuse_is_one_line(model: Path, call: Call) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        busy = taken.getsockname()[1]
        for words, exit_code, said in (
            (f"serve {model} port={busy}", 1, f"127.0.0.1:{busy} cannot be listened on"),
            (f"serve {model} port=x", 2, "port: expected 0 to 65535, got 'x'"),
            (f"serve {model} port=1 --port 2", 2, "port: is given twice, as 1 and 2"),
            (f"serve {model} colour=red", 2, "unknown key 'colour'"),
            ("serve nowhere", 2, "expected a folder with best.safetensors or last.safetensors"),
        ):
            code, _, err = call(words)
            assert code == exit_code
            assert said in err
            assert len(err.splitlines()) == 1
