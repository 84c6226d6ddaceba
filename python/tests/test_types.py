"""The types of the package, as mypy and pyright read them."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

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
    run("-m", "mypy", "--strict", "tests/typed.py")


def test_pyright() -> None:
    pytest.importorskip("pyright")
    run("-m", "pyright")


def test_all_that_is_public_has_a_type() -> None:
    pytest.importorskip("pyright")
    assert "Type completeness score: 100%" in run("-m", "pyright", "--verifytypes", "fuseloop", "--ignoreexternal")
