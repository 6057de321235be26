"""Tables for papers: LaTeX with the package booktabs."""

from __future__ import annotations

import re
from collections.abc import Sequence

ESCAPES = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "±": r"$\pm$",
    "−": "$-$",
    "ε": r"$\varepsilon$",
    "τ": r"$\tau$",
    "α": r"$\alpha$",
    "λ": r"$\lambda$",
    "σ": r"$\sigma$",
    "…": r"\dots{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
}
"""What LaTeX would take for something else, or has no letter for."""
NUMBER = re.compile(r"[+-](?=\d)")


def escaped(text: str) -> str:
    """Plain text as LaTeX; what stands between `**` is bold, and the sign of a number is one."""
    bold = text.startswith("**") and text.endswith("**") and len(text) > 4
    plain = text[2:-2] if bold else text
    signed = plain if not NUMBER.match(plain) else f"{plain[0].replace('-', '−')}{plain[1:]}"
    safe = "".join(ESCAPES.get(letter, letter) for letter in signed)
    return rf"\textbf{{{safe}}}" if bold else safe


def latex_table(head: Sequence[str], lines: Sequence[Sequence[str]], text: int = 1) -> str:
    """A `tabular` to be taken in by `\\input`; the first columns, `text` of them, are words and all
    others numbers."""
    form = "l" * text + "r" * (len(head) - text)
    rows = [" & ".join(map(escaped, cells)) + r" \\" for cells in (head, *lines)]
    return "\n".join(
        [
            r"% needs \usepackage{booktabs}",
            rf"\begin{{tabular}}{{{form}}}",
            r"\toprule",
            rows[0],
            r"\midrule",
            *rows[1:],
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )
