"""Tasks, one file each: what is learnt, and how it is measured (see `registry.Task`)."""

from amity.tasks.metrics import ACCURACY, Metric
from amity.tasks.registry import Rightness, Score, Task, metric_of, tasks

__all__ = ["ACCURACY", "Metric", "Rightness", "Score", "Task", "metric_of", "tasks"]
