"""Statistics that NumPy writes in terms of other functions."""

from __future__ import annotations

from typing import Any

import numpy

from .arrays import FLOAT, converted, traced
from .registry import axis_of, common, implements, only
from .sizes import now

#: Without its types, which know nothing of traced arrays.
np: Any = numpy


@implements(np.average)
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = False) -> Any:
    a = traced(a)
    if weights is None:
        mean = np.mean(a, axis=axis, keepdims=keepdims)
        count = a.size if axis is None else a.shape[axis_of(axis, a.ndim)]
        return (mean, np.full_like(mean, count)) if returned else mean
    kind = common([a, weights])
    kind = kind if kind.kind == "f" else FLOAT
    a, w = converted(a, kind), converted(traced(weights), kind)
    if w.ndim != a.ndim:
        at = axis_of(0 if axis is None else axis, a.ndim)
        w = np.reshape(w, tuple(-1 if k == at else 1 for k in range(a.ndim)))
    total = np.sum(np.broadcast_to(w, a.shape), axis=axis, keepdims=keepdims)
    mean = np.sum(a * w, axis=axis, keepdims=keepdims) / total
    return (mean, total) if returned else mean


@implements(np.cov)
def cov(m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: Any = None, fweights: Any = None, aweights: Any = None, *, dtype: Any = None) -> Any:
    only("cov", fweights=fweights, aweights=aweights)
    x = np.atleast_2d(traced(m))
    if not rowvar and traced(m).ndim > 1:
        x = x.T
    if y is not None:
        other = np.atleast_2d(traced(y))
        x = np.concatenate([x, other if rowvar or traced(y).ndim == 1 else other.T])
    kind = np.result_type(x.dtype, np.float64) if dtype is None else np.dtype(dtype)
    x = x.astype(kind)
    x = x - np.mean(x, axis=1, keepdims=True)
    less = (0 if bias else 1) if ddof is None else ddof
    return np.squeeze(x @ x.T / (x.shape[1] - less)) if now(x.shape[0]) == 1 else x @ x.T / (x.shape[1] - less)


@implements(np.corrcoef)
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    c = cov(x, y, rowvar, dtype=dtype)
    if not c.ndim:
        return c / c
    d = np.sqrt(np.diag(c))
    return np.clip(c / d[:, None] / d[None, :], -1, 1)
