"""What one neighbour may cause, on a clock that the test sets."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amity.net.limits import BURST, MOST_NONCES, Allowance, Bucket
from amity.net.options import Net
from amity.net.wire import Refused


class Clock:
    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


GAPS = st.floats(0, 5)


@settings(deadline=None)
@given(
    st.floats(0.5, 100), st.lists(st.tuples(GAPS, st.floats(0.01, 300)), min_size=1, max_size=40)
)
def test_a_bucket_lets_through_no_more_than_its_rate_and_three_seconds_worth(
    rate: float, asks: list[tuple[float, float]]
) -> None:
    clock = Clock()
    bucket, passed = Bucket(rate, clock), []
    for gap, amount in asks:
        clock.time += gap
        if bucket.take(amount):
            passed.append((clock.time, amount))
    for first in range(
        len(passed)
    ):  # in every window that begins with an ask, not only since the start
        for last in range(first, len(passed)):
            window = passed[last][0] - passed[first][0]
            assert (
                sum(amount for _, amount in passed[first : last + 1])
                <= rate * (BURST + window) * (1 + 1e-9) + 1e-9
            )


def test_a_bucket_is_full_at_first_and_fills_again_up_to_three_seconds_worth(clock: Clock) -> None:
    bucket = Bucket(10, clock)
    assert [bucket.take() for _ in range(31)] == [True] * 30 + [False]
    clock.time += 0.25
    assert [bucket.take() for _ in range(3)] == [True, True, False]
    clock.time += 1000
    assert not bucket.take(30.5)
    assert bucket.take(30)
    assert not bucket.take(0.5), "what was refused is not taken, what passed is"


@settings(deadline=None)
@given(
    st.floats(1, 1000), st.lists(st.tuples(GAPS, st.floats(0.1, 10_000)), min_size=1, max_size=30)
)
def test_who_waits_as_told_keeps_the_rate_and_does_not_wait_longer_than_needed(
    rate: float, sends: list[tuple[float, float]]
) -> None:
    clock = Clock()
    bucket, level, before = Bucket(rate, clock), rate * BURST, clock.time
    for gap, amount in sends:
        clock.time += gap
        # the level by hand; debt is waited off
        level = min(rate * BURST, level + rate * (clock.time - before)) - amount
        before = clock.time
        wait = bucket.wait(amount)
        assert wait == pytest.approx(max(0.0, -level / rate), rel=1e-6, abs=1e-6)
        clock.time += wait


def test_asks_beyond_the_rate_are_refused_until_time_has_passed(clock: Clock) -> None:
    allowance = Allowance(Net(requests=5), clock)
    for _ in range(15):
        allowance.ask()
        allowance.answered()
    with pytest.raises(Refused, match=r"too many asks: more than 5 a second") as caught:
        allowance.ask()
    assert caught.value.reason == "too many asks"
    clock.time += 0.2
    allowance.ask()
    with pytest.raises(Refused, match=r"too many asks"):
        allowance.ask()


def test_only_so_many_asks_may_wait_for_an_answer(clock: Clock) -> None:
    allowance = Allowance(Net(requests=1000, transfers=3), clock)
    for _ in range(4 * 3 + 16):
        allowance.ask()
    with pytest.raises(Refused, match=r"too many asks: others of yours are still waiting"):
        allowance.ask()
    allowance.answered()
    allowance.ask()
    with pytest.raises(Refused, match=r"still waiting"):
        allowance.ask()


def test_an_ask_is_answered_once_and_forgotten_when_it_could_not_be_believed_any_more(
    clock: Clock,
) -> None:
    allowance = Allowance(Net(), clock)
    allowance.fresh("aa", 60)
    clock.time += 30
    allowance.fresh("bb", 60)
    clock.time += 29.9
    for nonce in ("aa", "bb"):
        with pytest.raises(Refused, match=r"replay: this ask was answered already"):
            allowance.fresh(nonce, 60)
    clock.time += 0.1
    allowance.fresh("aa", 60)
    with pytest.raises(Refused, match=r"replay"):
        allowance.fresh("bb", 60)


def test_nonces_fill_a_bounded_memory_and_refusing_more_costs_next_to_nothing(clock: Clock) -> None:
    allowance = Allowance(Net(), clock)
    for number in range(MOST_NONCES):
        allowance.fresh(str(number), 60)
    begun = time.thread_time()
    for number in range(3000):
        with pytest.raises(Refused, match=r"too many asks"):
            allowance.fresh(f"more {number}", 60)
    assert time.thread_time() - begun < 2, "each must not look through all that are remembered"
    with pytest.raises(Refused, match=r"replay"):
        allowance.fresh("0", 60)
    clock.time += 60
    allowance.fresh("0", 60)


def test_models_are_sent_to_one_neighbour_only_so_many_at_a_time_also_if_one_breaks_off() -> None:
    allowance = Allowance(Net(transfers=2))
    with allowance.transfer():
        with (
            allowance.transfer(),
            pytest.raises(Refused, match=r"too many transfers: more than 2"),
            allowance.transfer(),
        ):
            pass
        with pytest.raises(ZeroDivisionError), allowance.transfer():
            raise ZeroDivisionError
        with allowance.transfer(), pytest.raises(Refused), allowance.transfer():
            pass


def test_threads_share_one_count_of_transfers() -> None:
    allowance, ready, leave = (
        Allowance(Net(transfers=4)),
        threading.Barrier(12),
        threading.Barrier(12),
    )
    results: list[str] = []

    def run() -> None:
        ready.wait(10)
        try:
            with allowance.transfer():
                leave.wait(10)
                results.append("sent")
        except Refused as refused:
            leave.wait(10)
            results.append(refused.reason)

    threads = [threading.Thread(target=run) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == ["sent"] * 4 + ["too many transfers"] * 8


def test_bytes_leave_at_the_bandwidth_after_three_seconds_worth(clock: Clock) -> None:
    allowance = Allowance(Net(bandwidth=1000), clock)
    assert allowance.pace(3000) == 0
    assert allowance.pace(500) == pytest.approx(0.5)
    clock.time += 0.5
    assert allowance.pace(1) == pytest.approx(0.001)


def test_visits_are_counted_for_each_round() -> None:
    allowance = Allowance(Net(visits=2))
    for round in (5, 5, 6, 6):
        allowance.visit(round)
    for round in (5, 6, 5):
        with pytest.raises(Refused, match=rf"too many visits: more than 2 in round {round}"):
            allowance.visit(round)
    allowance.visit(7)


@settings(deadline=None)
@given(st.lists(st.integers(-1, 6), max_size=60))
def test_no_round_has_more_visits_than_allowed_in_whatever_order_rounds_are_named(
    rounds: list[int],
) -> None:
    allowance, counted = Allowance(Net(visits=2)), dict.fromkeys(range(-1, 7), 0)
    for round in rounds:
        with suppress(Refused):
            allowance.visit(round)
            counted[round] += 1
    assert max(counted.values()) <= 2
