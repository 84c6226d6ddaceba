"""The magics of IPython and Jupyter: ``%%fuseloop`` compiles a cell, ``%explain`` shows a report."""

from __future__ import annotations

import argparse
import shlex
import sys
from importlib import import_module
from typing import Any, NoReturn

from . import _native
from ._errors import Error


class _Parser(argparse.ArgumentParser):
    """The options of a magic, whose errors are a line of text."""

    def error(self, message: str) -> NoReturn:
        raise _usage(f"{message}\n{self.format_usage().strip()}")


def _usage(message: str) -> Exception:
    """An error that IPython shows as its text alone."""
    made: Exception = import_module("IPython.core.error").UsageError(message)
    return made


def _options() -> _Parser:
    parser = _Parser(prog="%%fuseloop", add_help=False, allow_abbrev=False)
    parser.add_argument("--name")
    parser.add_argument("--device", default="cpu", choices=("cpu", "gpu", "auto", "interp"))
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--math", default="exact", choices=("exact", "fast"))
    return parser


class Magics:
    """The magics of a shell."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._cells = _native.Cells()
        # The functions that cells have bound, each with the options of its cell.
        self._bound: dict[str, tuple[_native.Function, dict[str, Any]]] = {}

    def fuseloop(self, line: str, cell: str) -> None:
        """Compiles the cell, a program of the language, and binds its functions.

        %%fuseloop [--name NAME] [--device DEVICE] [--threads N] [--math MATH]

        The cell can call the functions of cells that were run before. A function that replaces one
        of them also does so where other cells call it.

        With ``--name`` the program is bound to that name instead, its functions are attributes of
        it, and other cells do not know them. The other options are those of ``fuseloop.compile``.
        Paths in ``use "..."`` start from the current folder.
        """
        options = _options().parse_args(_words(line))
        if options.name is not None and not options.name.isidentifier():
            raise _usage(f"`{options.name}` is not a name of Python")
        label = f"Cell In[{len(self._shell.history_manager.input_hist_parsed) - 1}]"
        # The first line of the cell is the magic itself: errors count it, as an editor does.
        source = f"\n{cell}"
        compiling = {"device": options.device, "threads": options.threads, "math": options.math}
        try:
            module = self._cells.compile(source, name=label, **compiling)
            signatures = [module[name].check() for name in module]
            callers = self._cells.define(source, label) if options.name is None else []
        except Error as error:
            raise _without_traceback(error)
        warnings = module.check().removeprefix("\n".join(signatures)).strip()
        if warnings:
            print(warnings, file=sys.stderr)
        if options.name is None:
            self._bind(module, compiling)
            for caller in callers:
                self._compile_again(caller)
        else:
            self._shell.push({options.name: module})

    def _bind(self, module: _native.Module, compiling: dict[str, Any]) -> None:
        """Binds the functions of a cell to their names."""
        self._bound.update({name: (module[name], compiling) for name in module})
        self._shell.push({name: module[name] for name in module})

    def _compile_again(self, name: str) -> None:
        """Compiles a function again, because one that it calls was replaced. If it does not fit
        that one it is forgotten."""
        bound, compiling = self._bound[name]
        found = self._cells.definition(name)
        # The program may have bound the name to something else, which stays.
        is_bound = self._shell.user_ns.get(name) is bound
        if found is None:
            return
        label, source = found
        try:
            module = self._cells.compile(source, name=label, **compiling)
            module[name].check()
        except Error as error:
            print(f"`{name}` is forgotten, because it does not fit what it calls:\n{error}", file=sys.stderr)
            self._cells.forget(name)
            del self._bound[name]
            if is_bound:
                self._shell.del_var(name)
            return
        if is_bound:
            self._bind(module, compiling)

    def explain(self, line: str) -> None:
        """Shows what fusion made of a function: a page in a notebook, text in a terminal.

        %explain FUNCTION [SIZE=NUMBER ...]

        ``FUNCTION`` is a function of a program, or one that ``fuseloop.jit`` has compiled. Sizes
        may be expressions without spaces, such as ``n=x.shape[0]``.
        """
        function_name, *given = _words(line) or [""]
        if not function_name:
            raise _usage("%explain takes the name of a function, and sizes such as n=1000")
        sizes = [word.partition("=") for word in given]
        if any(not expression for _, _, expression in sizes):
            raise _usage("%explain takes sizes after the name of the function, such as n=1000")
        function = self._value(function_name)
        if not hasattr(function, "explain"):
            kind = type(function).__name__
            raise _usage(f"`{function_name}` is of type `{kind}`, not a compiled function: see %%fuseloop and fuseloop.jit")
        numbers = {size: self._value(expression) for size, _, expression in sizes}
        for size, number in numbers.items():
            if not hasattr(number, "__index__"):
                raise _usage(f"the size `{size}` is a whole number, not {number}")
        try:
            explanation = function.explain(**numbers)
        except Error as error:
            raise _without_traceback(error)
        import_module("IPython.display").display(explanation)

    def _value(self, expression: str) -> Any:
        """The value of an expression of the user."""
        try:
            return self._shell.ev(expression)
        except (AttributeError, KeyError, NameError, SyntaxError) as error:
            raise _usage(f"`{expression}`: {error.args[0]}") from None


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise _usage(f"this line cannot be read: {error}") from None


def _without_traceback(error: Error) -> Error:
    """The error, which IPython shows as its text: the lines of Python that led to it are those of
    this file."""
    error._render_traceback_ = lambda: str(error).splitlines()  # type: ignore[attr-defined]
    return error


def register(shell: Any) -> None:
    """Adds the magics to a shell of IPython."""
    magics = Magics(shell)
    shell.register_magic_function(magics.fuseloop, magic_kind="cell", magic_name="fuseloop")
    shell.register_magic_function(magics.explain, magic_kind="line", magic_name="explain")
