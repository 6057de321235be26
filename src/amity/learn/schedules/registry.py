"""Where schedules register, and what one is."""

from __future__ import annotations

from amity.registry import Registry


class Schedule:
    """A factor s_t on the learning rates in round t of T (counted from 0). A frozen dataclass: its
    fields are its options.

        η_t = η · s_t · ρᵗ

    ρ is `train.decay`. Where s_t depends on T, a run that is extended later follows the curve of
    its new length from there on: the rates of the rounds that it adds start higher than those that
    it ended with.
    """

    def at(self, round: int, rounds: int) -> float:
        """s_t."""
        raise NotImplementedError

    def misfit(self, rounds: int) -> str:
        """Why this schedule makes no sense in a run of so many rounds, and what would; empty: it
        does."""
        return ""


schedules: Registry[Schedule] = Registry("schedule", "at", "misfit", home="amity.learn.schedules")
