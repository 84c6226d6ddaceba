"""Fixtures that the tests share."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20261126)


@pytest.fixture
def examples() -> pathlib.Path:
    return pathlib.Path(__file__).parents[2] / "examples"
