"""The examples of the documentation."""

from __future__ import annotations

import doctest
import os
import pathlib
import re
from typing import Any

import pytest

import fuseloop
from fuseloop import _jit

ROOT = pathlib.Path(__file__).parents[2]


def blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def test_the_guide() -> None:
    names: dict[str, Any] = {}
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for number, block in enumerate(blocks("docs/python.md")):
        example = doctest.DocTestParser().get_doctest(block, names, f"block {number}", "docs/python.md", 0)
        assert runner.run(example, clear_globs=False).failed == 0
        names |= example.globs


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
