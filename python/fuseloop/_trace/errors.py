"""Errors of tracing, which name the line of Python that cannot be traced."""

from __future__ import annotations

import linecache
import os
import sys
from typing import NoReturn

from .._errors import Error

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def _numpy_folder() -> str:
    import numpy

    return os.path.dirname(os.path.abspath(numpy.__file__)) + os.sep


class Place:
    """A line of Python."""

    __slots__ = ("file", "function", "line")

    def __init__(self, file: str, line: int, function: str) -> None:
        self.file = file
        self.line = line
        self.function = function

    @property
    def text(self) -> str:
        return linecache.getline(self.file, self.line).rstrip()

    def __str__(self) -> str:
        return f"{_shown(self.file)}:{self.line}, in {self.function}"


def _shown(file: str) -> str:
    """The name of a file, or of a cell of a notebook, whose file has a name that nobody knows."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    named = None if shell is None else shell.compile.format_code_name(file)
    return file if named is None else " ".join(named)


def here() -> Place:
    """The innermost line that is neither of this package nor of NumPy."""
    inside = (_OWN, _numpy_folder(), "<")
    frame = sys._getframe(1)
    first = frame
    while frame.f_back is not None and frame.f_code.co_filename.startswith(inside):
        if frame.f_code.co_filename.startswith("<") and not frame.f_code.co_filename.startswith("<frozen"):
            break  # a prompt or a notebook
        frame = frame.f_back
    if frame.f_back is None and frame.f_code.co_filename.startswith(_OWN):
        frame = first
    return Place(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def trace_error(message: str, help: str | None = None, place: Place | None = None) -> Error:
    """The error that a line cannot be traced."""
    place = place or here()
    number = str(place.line)
    gap = " " * len(number)
    lines = [f"error: {message}", f"{gap}--> {place}"]
    if place.text:
        lines += [f"{gap} |", f"{number} | {place.text}", f"{gap} |"]
    if help is not None:
        lines.append(f"{gap} = help: {help}")
    return Error(message, help=help, drawn="\n".join(lines), notes=(str(place),))


def refuse(message: str, help: str | None = None) -> NoReturn:
    """Raises the error that the current line cannot be traced."""
    raise trace_error(message, help)
