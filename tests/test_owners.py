"""Data with natural owners: subjects, schools, roles. Made-up samples for the parsers, and the real
files where they are."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import amity
from amity.data import split
from amity.data.base import Dataset
from amity.data.inert import array_of, read_inert
from amity.data.schools import pupils_of
from amity.data.shakespeare import LETTERS, roles_of, sequences_of, speeches
from amity.data.watch import Recordings, recordings_of, windows_of
from amity.errors import DataError
from tests.test_published import real

OWNED = ("watch", "schools", "shakespeare")

# -- a file of objects is read, never unpickled ----------------------------------------------------


def npy_of(thing: Any) -> bytes:
    """A .npy file of one object, as NumPy 1 wrote them under Python 2 and 3."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        stream, {"descr": "|O", "fortran_order": False, "shape": ()}
    )
    packed = pickle.dumps(np.array(thing, dtype=object), protocol=2)
    return stream.getvalue() + packed.replace(b"cnumpy._core.", b"cnumpy.core.")


def test_arrays_lists_and_texts_come_out_as_they_went_in() -> None:
    series = [np.arange(12.0).reshape(4, 3), np.asfortranarray(np.random.rand(5, 3))]
    kept = {
        "X": series,
        "y": np.array([2, 0]),
        "subject": np.array([7.0, 3.0]),
        "y_labels": ["a", "b", "c"],
    }
    found = recordings_of(npy_of(kept))
    assert all(np.array_equal(a, b) for a, b in zip(found.series, series, strict=True))
    assert (found.exercise.tolist(), found.subject.tolist()) == ([2, 0], [7, 3])
    assert found.exercises == ("a", "b", "c")


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("ran"),)


@pytest.mark.parametrize("protocol", [2, 4])
def test_nothing_that_a_file_asks_for_is_run(protocol: int) -> None:
    bad = npy_of({"X": [Evil()], "y": Evil()})
    if protocol == 4:
        bad = bad[:128] + pickle.dumps(np.array({"X": Evil()}, dtype=object), protocol=4)
        with pytest.raises(DataError, match="evil: cannot be read as plain data"):
            read_inert("evil", bad)
    else:
        plain = read_inert("evil", bad)
        with pytest.raises(DataError, match="evil: holds no array of numbers there"):
            array_of("evil", plain["y"])
    assert not Path("ran").exists()
    with pytest.raises(DataError, match="torn: cannot be read as plain data"):
        read_inert("torn", bad[:200])


# -- the parsers -----------------------------------------------------------------------------------


def test_a_recording_becomes_stretches_and_its_end_is_for_testing() -> None:
    series = [np.arange(2 * n, dtype=float).reshape(n, 2) for n in (47, 33)]
    found = Recordings(series, np.array([1, 0]), np.array([9, 4]), ("a", "b"))
    dataset = windows_of(found, steps=8)
    x = dataset.pixels.x.numpy()
    assert x.shape == (9, 2, 8)
    assert np.array_equal(x[1], series[0][8:16].T)
    assert np.array_equal(x[5], series[1][:8].T)
    assert (dataset.train.tolist(), dataset.test.tolist()) == ([0, 1, 2, 3, 5, 6, 7], [4, 8])
    assert [dataset.writer_name(at) for at in (0, 8)] == ["subject 9", "subject 4"]
    assert dataset.labels.tolist() == [1] * 5 + [0] * 4
    normal = dataset.pixels.batch(torch.from_numpy(dataset.train))[0]
    assert np.allclose(normal.mean((0, 2)), 0, atol=1e-5)
    assert np.allclose(normal.std((0, 2), correction=0), 1, atol=1e-5)


STAR_HEAD = '"","tmathssk","treadssk","classk","totexpk","sex","freelunk","race","schidkn"'


def test_words_of_a_table_are_inputs_and_every_school_has_pupils_for_testing() -> None:
    lines = [
        f'"{i}",{400 + i},{430 + i},"{("regular", "small.class")[i % 2]}",{i % 9},"girl","yes",'
        f'"white",{(5, 63)[i >= 10]}'
        for i in range(30)
    ]
    dataset = pupils_of("\n".join([STAR_HEAD, *lines]))
    x, y = dataset.pixels.x.numpy(), dataset.pixels.y.numpy()
    # reading, experience, then each word: kind of class (3), sex (2), lunch (2), race (3)
    assert x[3].tolist() == [433, 3, 0, 0, 1, 0, 1, 0, 1, 0, 0, 1]
    assert y[3] == 403
    assert dataset.writers is not None
    assert np.bincount(dataset.writers[dataset.test]).tolist() == [3, 6]
    assert set(dataset.train.tolist()) | set(dataset.test.tolist()) == set(range(30))
    assert dataset.writer_names == ("school 5", "school 63")
    with pytest.raises(DataError, match=r"is not the table of Project STAR \(sex is 'cat'\)"):
        pupils_of("\n".join([STAR_HEAD, lines[0].replace("girl", "cat")]))
    with pytest.raises(DataError, match="is not the table of Project STAR"):
        pupils_of("a,b\n1,2\n")


PLAY = """ACT I.

Scene I. Elsinore. A platform.

[Francisco at his post. Enter to him
Bernardo.]

Ber.
Who's there?

FIRST LORD.
Nay, answer  me: [aside] stand,
and unfold yourself.

[Exit.]

OBERON
  Flower of 2 dyes

Ber.
Long live the king!
"""


def test_a_role_is_all_that_it_says_in_a_play_without_directions() -> None:
    assert list(speeches(PLAY)) == [
        ("Ber", "Who's there?"),
        ("First Lord", "Nay, answer me: stand,\nand unfold yourself."),
        ("Oberon", "Flower of 2 dyes"),
        ("Ber", "Long live the king!"),
    ]
    roles = roles_of({"some_play": PLAY, "other": PLAY})
    assert roles["Ber in some play"] == "Who's there?\nLong live the king!"
    assert len(roles) == 6


def test_the_answer_is_the_next_character_and_the_end_is_for_testing() -> None:
    dataset = sequences_of({"b": "Who's there?\n2 Long live", "a": "short", "c": "Yes, yes!"}, 4)
    x, y = dataset.pixels.x.tolist(), dataset.pixels.y.tolist()

    def text(ids: list[int]) -> str:
        return "".join(LETTERS[i - 1] for i in ids)

    assert [text(row) for row in x] == ["Who'", "s th", "ere?", "\n Lo", "ng l", "Yes,", " yes"]
    assert [text(row) for row in y] == ["ho's", " the", "re?\n", " Lon", "g li", "es, ", "yes!"]
    assert dataset.writer_names == ("b", "c")  # «short» has one sequence only
    assert (dataset.train.tolist(), dataset.test.tolist()) == ([0, 1, 2, 3, 5], [4, 6])
    assert dataset.vocabulary == {"": len(LETTERS) + 1}


# -- the real files --------------------------------------------------------------------------------


@pytest.fixture(params=OWNED)
def owned(request: pytest.FixtureRequest) -> tuple[str, Dataset]:
    return request.param, real(request.param)


def test_the_real_files_have_the_owners_that_they_are_known_for(
    owned: tuple[str, Dataset],
) -> None:
    name, dataset = owned
    known = {"watch": (10, 1652, 717), "schools": (79, 4028, 1720), "shakespeare": (1210, 80403)}
    people = len(dataset.writer_names)
    assert (people, len(dataset.train), len(dataset.test))[: len(known[name])] == known[name]
    config = amity.load(None, {"data": name, "peers": 5})
    peers = split(dataset, config.partition.instance, ("a", "b", "c", "d", "e"), 1)
    for mine in peers.values():
        for part in (mine.train, mine.test):
            assert {dataset.writer_name(int(at)) for at in part.index} == {mine.origin}


def test_everyone_learns_something_and_the_matrix_has_its_unit(owned: tuple[str, Dataset]) -> None:
    name, _ = owned
    few = {"name": "natural", "samples": 12}
    config = {"data": name, "peers": 3, "rounds": 2, "partition": few, "strategy": "gossip"}
    result = amity.run(amity.load(None, config), "r")
    start, end = (sum(_leads(result, at, of)) for at, of in ((0, "start"), (1, "")))
    metric = result.config.task.instance.metric
    assert metric.gain(end, start) > 0
    crossed = result.matrix()
    assert [crossed.own(peer) for peer in crossed.names] == pytest.approx(_leads(result, 1, ""))
    assert (
        f"has {metric.called} {metric.text(crossed.own('peer-01'))}, and"
        in crossed.sentences["peer-01"]
    )
    assert crossed.called("peer-01").startswith("peer-01 (")


def _leads(result: amity.Result, round: int, of: str) -> list[float]:
    return [r.lead(of) or 0.0 for r in result.metrics if r.round == round]


@pytest.mark.parametrize("name", OWNED)
def test_each_has_a_config_that_names_its_owners(name: str, repository: Path) -> None:
    config = amity.load(repository / "configs" / f"{name}.toml")
    assert (config.data.name, config.partition.name) == (name, "natural")
