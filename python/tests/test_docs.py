"""The examples of the documentation."""

from __future__ import annotations

import doctest
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import pytest

import fuseloop
from fuseloop import _jit

ROOT = pathlib.Path(__file__).parents[2]


def blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


# `test_dask` has the page on Dask.
GUIDE = sorted(page.name for page in (ROOT / "python/docs").glob("*.md") if page.name != "dask.md")


@pytest.mark.parametrize("page", GUIDE)
def test_the_guide(page: str) -> None:
    names: dict[str, Any] = {}
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for number, block in enumerate(blocks(f"python/docs/{page}")):
        example = doctest.DocTestParser().get_doctest(block, names, f"block {number}", page, 0)
        assert runner.run(example, clear_globs=False).failed == 0
        names |= example.globs


def test_the_pages_are_built(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    built = subprocess.run(
        command, cwd=ROOT / "python", env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stdout + built.stderr
    reference = (tmp_path / "reference.html").read_text()
    for name in fuseloop.__all__:
        assert f'id="fuseloop.{name}"' in reference, name


@pytest.mark.parametrize("page", ["README.md", "python/README.md"])
def test_what_a_reader_sees_first(page: str, tmp_path: pathlib.Path) -> None:
    """`jit` reads the lines of a function from its file."""
    before = os.getcwd()
    os.chdir(ROOT)
    try:
        for number, block in enumerate(blocks(page)):
            file = tmp_path / f"block{number}.py"
            file.write_text(block)
            exec(compile(block, str(file), "exec"), {"__name__": "__main__"})
    finally:
        os.chdir(before)


def test_docstrings() -> None:
    for module in (fuseloop, _jit):
        assert doctest.testmod(module, extraglobs={"np": __import__("numpy")}).failed == 0
