# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
"""Calls as a program with types makes them: `test_types` checks this file and runs it.

A line with `type: ignore` is a mistake that checkers must find.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import fuseloop as fl
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from typing_extensions import assert_type
else:

    def assert_type(value: Any, _: Any) -> Any:
        return value


Floats = NDArray[np.float64]
x: Floats = np.array([1.0, 3.0])


def programs() -> None:
    module = fl.compile("fn scaled(x: float[n], by: float) = x * by", threads=1, math="fast")
    assert_type(module, fl.Module)
    assert_type(module.functions, list[str])
    assert_type(module["scaled"], fl.Function)
    assert_type(module.scaled, fl.Function)
    result: Floats = module.scaled(x, by=2.0, threads=1)
    assert result.tolist() == [2.0, 6.0]
    report = module.scaled.explain(n=3)
    assert_type(report, fl.Explanation)
    assert_type(report.bytes_after, int | None)
    assert_type(fl.format(module.source), str)


def errors() -> None:
    try:
        fl.compile("fn f(x: f32[n]) = y")
    except fl.Error as error:
        assert_type(error.code, str | None)
        assert_type(error.span, tuple[int, int] | None)
        assert_type(error.errors, tuple[fl.Error, ...])


@fl.jit
def shares(x: Floats, eps: float = 0.0) -> Floats:
    y: Floats = x / (x.sum() + eps)
    return y


@fl.jit(static=("power",))
def raised(x: Floats, power: float) -> tuple[Floats, Floats]:
    return x * power, x


class Model:
    @fl.jit
    def shifted(self, x: Floats) -> Floats:
        return x + 1


def compiled() -> None:
    assert_type(shares(x), Floats)
    assert_type(shares(x, eps=1e-3), Floats)
    assert_type(shares(x, out=np.empty(2)), Floats)
    assert_type(shares(x, threads=1), Floats)
    assert_type(raised(x, 2.0), tuple[Floats, Floats])
    assert_type(raised(x, 2.0, out=(np.empty(2), np.empty(2)), threads=1), tuple[Floats, Floats])
    assert_type(shares.source, str)
    assert_type(shares.explain(), fl.Explanation)
    plain: Callable[[Floats, float], Floats] = shares
    assert plain(x, 0.0).tolist() == [0.25, 0.75]
    method: Callable[[Floats], Floats] = Model().shifted
    assert callable(method)


def mistakes() -> None:
    fl.compile("fn f() = 1", device="tpu")  # type: ignore[arg-type]
    fl.compiled("fn f() = 1")  # type: ignore[attr-defined]
    shares("x")  # type: ignore[call-overload]
    shares()  # type: ignore[call-overload]


if __name__ == "__main__":
    programs()
    errors()
    compiled()
