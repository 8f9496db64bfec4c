"""Imports point one way: each part of Headrace imports only what stands before it in LAYERS, and nothing beside it.

    model, errors, config, stats <- plan <- sql | engine | reference | workload <- spark <- lab | console | demo | cli
                                    plan <- reference_functions <- reference, and nothing else
                                            reference <- reference_aggregates

A part is the module or package directly under ``headrace``. Imports inside functions and under TYPE_CHECKING count too.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "headrace"

API = "__init__"
"""The public names: it may import anything, and nothing inside imports from it (``headrace.__version__`` aside)."""

#          the parts of a layer                            may they import each other?
LAYERS = (
    (("model", "errors", "config", "stats"),               True),
    (("plan",),                                            True),
    (("reference_functions",),                             False),
    (("sql", "engine", "reference", "workload"),           False),
    (("reference_aggregates",),                            False),
    (("spark",),                                           True),
    (("lab", "console", "demo", "cli", "__main__", API),   True),
)  # fmt: skip

#   the package       the only part that imports it
OWNERS = {
    "sqlglot":        "sql",
    "pyspark":        "spark",
    "py4j":           "spark",
}  # fmt: skip

#   the part               the only part that imports it
PRIVATE = {
    "reference_functions": "reference",
}  # fmt: skip

STANDARD_LIBRARY_ONLY = ("model", "errors", "config", "stats", "plan")

#   a part without a clock and without I/O: time, files and chance are its inputs
PURE = ("engine",)
IMPURE_MODULES = frozenset({
    "asyncio", "concurrent", "fileinput", "glob", "http", "io", "logging", "mmap", "multiprocessing", "os", "pathlib",
    "random", "sched", "secrets", "select", "shutil", "signal", "socket", "sqlite3", "subprocess", "tempfile",
    "threading", "time", "urllib", "uuid",
})  # fmt: skip
IMPURE_CALLS = frozenset({"open", "input", "print", "now", "utcnow", "today"})

LAYER_OF = {part: number for number, (parts, _) in enumerate(LAYERS) for part in parts}


def violations(part: str, source: str, module: str) -> list[str]:
    """What is wrong with the imports of a module (``headrace.plan.queries``) that belongs to a part (``plan``)."""
    tree = ast.parse(source)
    found = []
    for line, target in imports(tree, module):
        problem = problem_with(part, target)
        if problem:
            found.append(f"{module}, line {line}: {problem}")
    if part in PURE:
        found += [f"{module}, line {line}: {part} is pure but calls {name}()" for line, name in impure_calls(tree)]
    return found


def problem_with(part: str, target: str) -> str | None:
    """Why this part must not import that dotted name, or None."""
    root = target.split(".")[0]
    if root == "headrace":
        return problem_inside(part, part_of(target))
    if part in PURE and root in IMPURE_MODULES:
        return f"{part} is pure but imports {root}"
    if part in STANDARD_LIBRARY_ONLY and root not in sys.stdlib_module_names:
        return f"{part} imports {root}, but only the standard library is allowed there"
    if OWNERS.get(root, part) != part:
        return f"{part} imports {root}, but only {OWNERS[root]} may"
    return None


def problem_inside(part: str, other: str) -> str | None:
    if other not in LAYER_OF:
        return f"imports headrace.{other}, which LAYERS does not place"
    if other == part:
        return None
    if PRIVATE.get(other, part) != part:
        return f"{part} imports {other}, but only {PRIVATE[other]} may"
    mine, theirs = LAYER_OF[part], LAYER_OF[other]
    if theirs > mine:
        return f"{part} imports {other}, which stands above it"
    if theirs == mine and not LAYERS[mine][1]:
        return f"{part} imports {other}, its sibling"
    return None


def part_of(target: str) -> str:
    """The part a dotted name lies in: ``headrace.plan.queries.Query`` is in plan, ``headrace.Engine`` in the API."""
    names = target.split(".")
    if len(names) == 1 or (len(names) == 2 and names[1] == "__version__"):
        return "model"  # the package itself, without any of its names
    return names[1] if names[1] in LAYER_OF or names[1].islower() else API


def imports(tree: ast.Module, module: str) -> Iterator[tuple[int, str]]:
    """Every import as (line, absolute dotted name); ``from x import y`` gives ``x.y``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = ".".join(module.split(".")[: -node.level]) if node.level else ""
            start = ".".join(name for name in (package, node.module) if name)
            yield from ((node.lineno, f"{start}.{alias.name}") for alias in node.names)


def impure_calls(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            if name in IMPURE_CALLS:
                yield node.lineno, name


def modules() -> Iterator[tuple[str, str, Path]]:
    """(part, dotted module name, file) of every module; a package's own module ends in ``__init__``."""
    for path in sorted(SOURCE.rglob("*.py")):
        names = path.relative_to(SOURCE).with_suffix("").parts
        yield names[0], ".".join(("headrace", *names)), path


def test_every_part_has_its_place() -> None:
    assert sorted({part for part, _, _ in modules()} - LAYER_OF.keys()) == []


def test_imports_point_one_way() -> None:
    found = [one for part, module, path in modules() for one in violations(part, path.read_text(), module)]
    assert found == [], "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("part", "source", "expected"),
    [
        ("plan",     "from headrace.sql import parse",             "plan imports sql, which stands above it"),
        ("model",    "import headrace.plan.queries",               "model imports plan, which stands above it"),
        ("sql",      "from headrace import engine",                "sql imports engine, its sibling"),
        ("engine",   "from ..reference import join",               "engine imports reference, its sibling"),
        ("sql",      "import headrace.reference_functions",         "sql imports reference_functions, but only ref"),
        ("workload", "def f():\n    import headrace.sql",          "workload imports sql, its sibling"),
        ("engine",   "from headrace import Engine",                "engine imports __init__, which stands above it"),
        ("engine",   "from headrace.oddments import x",            "headrace.oddments, which LAYERS does not place"),
        ("spark",    "import sqlglot.expressions",                 "spark imports sqlglot, but only sql may"),
        ("cli",      "from pyspark.sql import SparkSession",       "cli imports pyspark, but only spark may"),
        ("config",   "import numpy as np",                         "config imports numpy, but only the standard lib"),
        ("engine",   "from time import monotonic",                 "engine is pure but imports time"),
        ("engine",   "import os.path",                             "engine is pure but imports os"),
        ("engine",   "from datetime import datetime as d; d.now()", "engine is pure but calls now()"),
        ("engine",   "with open('x') as f: pass",                  "engine is pure but calls open()"),
    ],
)  # fmt: skip
def test_a_violation_is_found(part: str, source: str, expected: str) -> None:
    found = violations(part, source, f"headrace.{part}.some_module")
    assert len(found) == 1
    assert expected in found[0]


@pytest.mark.parametrize(
    ("part", "source"),
    [
        ("config", "import os\nfrom headrace.model import Stream"),
        ("engine", "import numpy as np\nimport pyarrow as pa\nfrom headrace.plan import queries\nfrom . import shard"),
        ("sql",    "import sqlglot\nfrom headrace.plan.queries import Query\nfrom headrace.errors import SqlError"),
        ("spark",  "import pyspark\nfrom headrace.engine.shard import Shard\nfrom ..sql import parse"),
        ("cli",    "from headrace import __version__, demo\nfrom headrace.console import serve"),
        (API,      "from headrace.spark.session import Engine"),
    ],
)  # fmt: skip
def test_what_is_allowed_passes(part: str, source: str) -> None:
    assert violations(part, source, f"headrace.{part}.some_module") == []
