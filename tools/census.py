"""How large and how tangled a Python package is: `python tools/census.py src/amity [OTHER ...]`.

One column a package: files, lines, functions, branches, constructors, and import cycles between
its subpackages (imports inside functions count, imports for type checkers do not). The last two
lines name what is worst.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

BRANCHES = (
    ast.If,
    ast.IfExp,
    ast.For,
    ast.While,
    ast.ExceptHandler,
    ast.comprehension,
    ast.match_case,
    ast.Assert,
)
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Census:
    files: int = 0
    lines: list[int] = field(default_factory=list)
    functions: list[tuple[int, int, str]] = field(default_factory=list)
    """Branches, lines and name of every function."""
    positional: list[tuple[int, str]] = field(default_factory=list)
    """Positional parameters of every constructor."""
    imports: dict[str, set[str]] = field(default_factory=dict)


def branches(function: Function) -> int:
    """Ways to go on, of this function alone: those of functions inside it are theirs."""
    count, left = 0, list(ast.iter_child_nodes(function))
    while left:
        node = left.pop()
        if isinstance(node, Function | ast.ClassDef):
            continue
        count += isinstance(node, BRANCHES)
        count += len(node.values) - 1 if isinstance(node, ast.BoolOp) else 0
        left += ast.iter_child_nodes(node)
    return count


def constructor(cls: ast.ClassDef) -> int:
    """How many parameters may be given by position when an instance is made."""
    for node in cls.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            return len(node.args.args) - 1
    decorators = [ast.unparse(decorator) for decorator in cls.decorator_list]
    if not any("dataclass" in text for text in decorators):
        return 0
    if any("kw_only=True" in text for text in decorators):
        return 0
    fields = [n for n in cls.body if isinstance(n, ast.AnnAssign)]
    return sum("ClassVar" not in ast.unparse(n.annotation) for n in fields)


def imported(tree: ast.AST, module: str, package: str) -> Iterator[str]:
    """Modules of the same package that a module imports when it runs."""
    left = [tree]
    while left:
        node = left.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            left += node.orelse
            continue
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.split(".")[0] == package)
        if isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*module.split(".")[: -node.level], *base.split(".")]).strip(".")
            if base.split(".")[0] == package:
                yield from (f"{base}.{a.name}" for a in node.names)
        left += ast.iter_child_nodes(node)


def take(root: Path) -> Census:
    census, package = Census(), root.name
    for path in sorted(root.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        parts = path.relative_to(root).with_suffix("").parts
        census.files += 1
        census.lines.append(len(text.splitlines()))
        for node in ast.walk(tree):
            where = f"{'/'.join(parts)}:{getattr(node, 'name', '')}"
            if isinstance(node, Function):
                size = (node.end_lineno or node.lineno) - node.lineno + 1
                census.functions.append((branches(node), size, where))
            elif isinstance(node, ast.ClassDef):
                census.positional.append((constructor(node), where))
        mine = parts[0] if len(parts) > 1 or (root / parts[0]).is_dir() else parts[-1]
        if mine in ("__init__", "__main__"):
            continue  # the package's own face may know everything
        for name in imported(tree, ".".join([package, *parts]), package):
            other = name.split(".")[1] if "." in name else ""
            exists = (root / other).is_dir() or (root / f"{other}.py").exists()
            if other != mine and exists:
                census.imports.setdefault(mine, set()).add(other)
    return census


def cycles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Groups of subpackages that reach each other."""

    def reach(start: str) -> set[str]:
        seen, left = set[str](), [start]
        while left:
            for other in graph.get(left.pop(), set()) - seen:
                seen.add(other)
                left.append(other)
        return seen

    reached = {name: reach(name) for name in graph}
    found: list[set[str]] = []
    for name in sorted(graph):
        group = {other for other in reached[name] if name in reached.get(other, set())}
        if group and not any(name in other for other in found):
            found.append(group | {name})
    return found


def figures(census: Census) -> dict[str, object]:
    ways = [count for count, _, _ in census.functions]
    sizes = sorted(size for _, size, _ in census.functions)
    rings = cycles(census.imports)
    return {
        "files": census.files,
        "lines": sum(census.lines),
        "largest file": max(census.lines),
        "files above 300 lines": sum(lines > 300 for lines in census.lines),
        "functions": len(ways),
        "median lines of a function": sizes[len(sizes) // 2],
        "functions above 40 lines": sum(size > 40 for size in sizes),
        "branches for each function": f"{sum(ways) / len(ways):.2f}",
        "functions above 12 branches": sum(count > 12 for count in ways),
        "most branches": max(ways),
        "constructors above 6 by position": sum(count > 6 for count, _ in census.positional),
        "most by position": max(count for count, _ in census.positional),
        "import cycles between packages": len(rings),
        "packages in cycles": sum(map(len, rings)),
    }


def main() -> None:
    roots = [Path(word) for word in sys.argv[1:]]
    if not roots:
        raise SystemExit(__doc__)
    taken = {str(root): take(root) for root in roots}
    table = {name: figures(census) for name, census in taken.items()}
    keys = next(iter(table.values()))
    out = sys.stdout.write
    out("| | " + " | ".join(table) + " |\n|---|" + "---|" * len(table) + "\n")
    for key in keys:
        out(f"| {key} | " + " | ".join(str(column[key]) for column in table.values()) + " |\n")
    for name, census in taken.items():
        worst = sorted(census.functions, reverse=True)[:8]
        wide = sorted(census.positional, reverse=True)[:8]
        out(f"\n{name}: branches: " + ", ".join(f"{where} {n}" for n, _, where in worst))
        out("\n  by position: " + ", ".join(f"{where} {n}" for n, where in wide))
        out(f"\n  cycles: {[sorted(ring) for ring in cycles(census.imports)]}\n")


if __name__ == "__main__":
    main()
