"""How fast the engine is, beside the loop that anyone would write: `amity bench`."""

from amity.bench.measure import Measurement, measure
from amity.bench.workloads import Workload, workloads

__all__ = ["Measurement", "Workload", "measure", "workloads"]
