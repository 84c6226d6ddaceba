"""The types of the package, as mypy and pyright read them, and the documentation in its stubs.

`UPDATE_DOCS=1` writes the documentation of the native part into its stubs.
"""

from __future__ import annotations

import ast
import inspect
import os
import pathlib
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest
from fuseloop import _native

TESTS = pathlib.Path(__file__).parent


def run(*command: str) -> str:
    # Pyright asks the first `python` for the packages that are installed.
    path = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ.get("PATH", "")])
    done = subprocess.run(
        [sys.executable, *command], cwd=TESTS.parent, env=os.environ | {"PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_calls_run() -> None:
    run("tests/typed.py")


def test_mypy() -> None:
    pytest.importorskip("mypy")
    # The package itself is checked with Dask installed, and with the newest NumPy.
    run("-m", "mypy", "--strict", "--follow-imports=silent", "tests/typed.py")


def test_pyright() -> None:
    for needed in ("pyright", "dask.array", "ml_dtypes"):
        pytest.importorskip(needed)
    run("-m", "pyright")


def test_all_that_is_public_has_a_type() -> None:
    pytest.importorskip("pyright")
    assert "Type completeness score: 100%" in run("-m", "pyright", "--verifytypes", "fuseloop", "--ignoreexternal")


def documented(body: list[ast.stmt], of: Any) -> Iterator[tuple[ast.FunctionDef | ast.ClassDef, str]]:
    """Each class and function of the stubs with what it says of itself."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            value = getattr(of, node.name)
            yield node, inspect.getdoc(value) or ""
            if isinstance(node, ast.ClassDef):
                yield from documented(node.body, value)


def test_stubs_have_the_documentation() -> None:
    """Editors and the pages of the reference read it there."""
    path = pathlib.Path(_native.__file__).with_name("_native.pyi")
    lines = path.read_text().splitlines()
    found = list(documented(ast.parse("\n".join(lines)).body, _native))
    assert len(found) > 30 and all(doc for _, doc in found)
    if not os.environ.get("UPDATE_DOCS"):
        for node, doc in found:
            assert ast.get_docstring(node) == doc, f"{node.name}: run this test with UPDATE_DOCS=1"
        return
    for node, doc in sorted(found, key=lambda each: -each[0].lineno):
        indent = " " * (node.col_offset + 4)
        text = textwrap.indent(f'"""{doc}"""' if "\n" not in doc else f'"""{doc}\n"""', indent, lambda line: line.strip() != "")
        first = node.body[0]
        end = first.end_lineno or 0
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and first.value.value is ...:
            # `...` stands behind the signature.
            lines[end - 1] = lines[end - 1].removesuffix(" ...")
            lines[end:end] = text.splitlines()
        elif ast.get_docstring(node) is None:
            lines[first.lineno - 1 - _decorators(first) : first.lineno - 1 - _decorators(first)] = text.splitlines()
        else:
            lines[first.lineno - 1 : end] = text.splitlines()
    path.write_text("\n".join(lines) + "\n")


def _decorators(node: ast.stmt) -> int:
    return len(node.decorator_list) if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else 0
