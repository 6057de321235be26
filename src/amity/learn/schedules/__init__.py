"""Schedules, one file each: learning rates over the rounds of a run (see `registry.Schedule`)."""

from amity.learn.schedules.registry import Schedule, schedules

__all__ = ["Schedule", "schedules"]
