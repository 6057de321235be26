"""What differential privacy has cost."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass
from typing import ClassVar

from amity.show.page import section
from amity.show.panels.base import panels
from amity.show.story import Story


@panels.register("privacy")
@dataclass(frozen=True)
class PrivacyPanel:
    """ε, what it covers, and what each peer has spent; for a single run."""

    order: ClassVar[int] = 5

    def html(self, story: Story) -> str:
        result = story.single
        if result is None or not result.privacy:
            return ""
        steps, epsilon = result.final("private_steps"), result.final("epsilon")
        rows = "".join(
            f"<tr><td>{html.escape(peer)}</td><td>{count}</td>"
            f"<td>{_shown(epsilon.get(peer, math.inf))}</td></tr>"
            for peer, count in steps.items()
        )
        return section(
            "Privacy",
            f"{result.privacy}. The largest of all peers, as real ones would have it (in a"
            " simulation noise follows from the seed). Fine-tuned copies and personal models are"
            " trained without noise and never leave; ε does not cover them.",
            "<details><summary>By peer</summary><table><tr><th>peer</th><th>private steps or"
            f" uploads</th><th>ε</th></tr>{rows}</table></details>",
        )


def _shown(epsilon: float) -> str:
    return f"{epsilon:.3g}" if math.isfinite(epsilon) else "infinite"
