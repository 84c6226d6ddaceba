"""The exception of this package."""

from __future__ import annotations


class Error(Exception):
    """A program that cannot be compiled, or a call that cannot be made.

    Its text has the place in the source drawn, where there is one.
    """

    code: str | None
    """The code of the error, such as ``"E0201"``, which ``docs/errors`` explains; ``None`` for
    errors of the Python package."""
    message: str
    """The error in one sentence."""
    span: tuple[int, int] | None
    """The bytes of the source that it concerns, as start and end."""
    help: str | None
    """How to fix it."""
    notes: tuple[str, ...]
    """Facts that help to understand it."""
    errors: tuple[Error, ...]
    """All errors of a source that has several, this one first."""

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        span: tuple[int, int] | None = None,
        help: str | None = None,
        notes: tuple[str, ...] = (),
        drawn: str | None = None,
        errors: tuple[Error, ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.span = span
        self.help = help
        self.notes = notes
        self.errors = errors or (self,)
        self._drawn = drawn

    def __str__(self) -> str:
        if self._drawn is not None:
            return self._drawn
        return self.message if self.help is None else f"{self.message}\n  = help: {self.help}"

    def __reduce__(self) -> tuple[object, ...]:
        errors = () if self.errors == (self,) else self.errors
        fields = (self.message, self.code, self.span, self.help, self.notes, self._drawn, errors)
        return (_remade, fields)


def _remade(
    message: str,
    code: str | None,
    span: tuple[int, int] | None,
    help: str | None,
    notes: tuple[str, ...],
    drawn: str | None,
    errors: tuple[Error, ...],
) -> Error:
    return Error(message, code=code, span=span, help=help, notes=notes, drawn=drawn, errors=errors)


Error.__module__ = "fuseloop"
