"""What a round came to, in a few numbers: the spread over peers, bytes, who is harmed."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import gt, lt
from typing import Any

from amity.errors import AmityError
from amity.files import plain
from amity.lines import parsed
from amity.metric import ACCURACY, Metric

MANY = 100
"""From so many peers on it is worth while not to read every line."""
Line = Mapping[str, Any]


def leading(config: Mapping[str, Any]) -> Metric:
    """What the peers of a run are judged by. A config that cannot be read as one is judged by
    accuracy, and so is one that names no task: others are loaded only where there are some."""
    if not config.get("task"):
        return ACCURACY
    from amity.tasks import metric_of

    try:
        return metric_of(config)
    except (AmityError, TypeError, ValueError, AttributeError):
        return ACCURACY


def as_told(metric: Metric) -> dict[str, Any]:
    """What a page needs to know of it."""
    return {
        "name": metric.called,
        "unit": metric.unit,
        "percent": metric.unit == "%",
        "up": metric.more,
    }


def number(value: Any) -> float | None:
    """A finite number, or nothing."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if value - value == 0 else None
    except OverflowError:  # a whole number beyond all
        return None


def as_json(found: Any) -> bytes:
    """As it is told. A character that is none (half of a pair) is told as a question mark."""
    text = json.dumps(plain(found), ensure_ascii=False, separators=(",", ":"), default=str)
    return text.encode(errors="replace")


def received(line: Line) -> int:
    return _bytes(line, ("card_in", "model_in", "reply_in"))


def sent(line: Line) -> int:
    return _bytes(line, ("card_out", "model_out", "reply_out"))


def _bytes(line: Line, keys: Iterable[str]) -> int:
    return sum(int(number(line.get(key)) or 0) for key in keys)


def harmed(line: Line, metric: Metric) -> bool | None:
    """Whether a peer would do better alone; None: that was not measured."""
    mine, alone = number(line.get(metric.field)), number(line.get(f"{metric.field}_alone"))
    return None if mine is None or alone is None else metric.gain(mine, alone) < 0


def spread(values: Sequence[float]) -> list[float] | None:
    """Mean, lowest, a tenth, the middle, nine tenths, highest; None of nothing."""
    if not values:
        return None
    ordered, last = sorted(values), len(values) - 1

    def at(share: float) -> float:
        low = int(share * last)
        part = share * last - low
        high = ordered[min(low + 1, last)]
        return ordered[low] + part * (high - ordered[low])

    mean = sum(ordered) / len(ordered)
    return [round(v, 6) for v in (mean, ordered[0], at(0.1), at(0.5), at(0.9), ordered[-1])]


def summary(lines: Sequence[Line], metric: Metric) -> dict[str, Any]:
    """All peers of a round. Attackers are counted, and nothing else of them."""
    honest = [line for line in lines if not line.get("attacker")]
    values = [v for line in honest if (v := number(line.get(metric.field))) is not None]
    told = [h for line in honest if (h := harmed(line, metric)) is not None]
    epsilons = [e for line in lines if (e := number(line.get("epsilon"))) is not None]
    found: dict[str, Any] = {
        "peers": len(lines),
        "spread": spread(values),
        "harmed": sum(told) if told else None,
        "attackers": len(lines) - len(honest) or None,
        "offline": sum(not line.get("available") for line in lines) or None,
        "missing": sum(int(number(line.get("missing")) or 0) for line in lines) or None,
        "diverged": sum(bool(line.get("diverged")) for line in honest) or None,
        "epsilon": max(epsilons, default=None),
    }
    return {key: value for key, value in found.items() if value is not None}


def slowly(text: bytes, metric: Metric) -> dict[str, Any]:
    """The lines of a round, read one by one; `moved` are bytes received and sent."""
    raw = text.split(b"\n")[:-1]
    lines = [found for line in raw if (found := parsed(line)) is not None]
    found = summary(lines, metric)
    if len(raw) != len(lines):
        found["trouble"] = f"{len(raw) - len(lines)} lines of metrics.jsonl are damaged"
    return {**found, "moved": (sum(map(received, lines)), sum(map(sent, lines)))}


WAYS = ("card_in", "card_out", "model_in", "model_out", "reply_in", "reply_out")
"""As records have them, side by side."""
MOVED = re.compile(", ".join(rf'"{way}": (\d+)' for way in WAYS).encode())
COUNTED = {"offline": (b'"available": 0,', b'"available": 0}'), "diverged": (b'"diverged": true',)}


def quickly(text: bytes, metric: Metric) -> dict[str, Any] | None:
    """The same for many lines that are alike, without reading each as JSON; None: they are not.
    Quotes within a text are written with a backslash, so a key is found only where it is one."""
    count = text.count(b"\n")
    whole = text.startswith(b"{") and text.endswith(b"}\n") and text.count(b"}\n{") == count - 1
    if count < MANY or not whole or b'"attacker": true' in text or b'"epsilon": ' in text:
        return None
    key = metric.field.encode()
    mine = re.findall(rb'"%b": ([-\d.e]+)[,}]' % key, text)
    known = b'"%b_alone": ' % key in text
    alone = re.findall(rb'"%b_alone": ([-\d.e]+)[,}]' % key, text) if known else []
    moved = MOVED.findall(text)
    if len(mine) != count or len(alone) != known * count or len(moved) != count:
        return None
    values = list(map(float, mine))
    found: dict[str, Any] = {"peers": count, "spread": spread(values)}
    if alone:
        found["harmed"] = sum(map(lt if metric.more else gt, values, map(float, alone)))
    found |= {key: n for key, words in COUNTED.items() if (n := sum(map(text.count, words)))}
    if b'"missing": ' in text and (n := sum(map(int, re.findall(rb'"missing": (\d+)', text)))):
        found["missing"] = n
    each = [_total(column) for column in zip(*moved, strict=True)]
    return {**found, "moved": (sum(each[0::2]), sum(each[1::2]))}


def _total(written: Iterable[bytes]) -> int:
    """Of numbers, most of which are the same as others: each is read once."""
    return sum(int(one) * times for one, times in Counter(written).items())
