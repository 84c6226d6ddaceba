"""The native part of the package."""

from collections.abc import Iterator
from os import PathLike
from typing import Any, Literal, final

Device = Literal["cpu", "gpu", "auto", "interp"]
Math = Literal["exact", "fast"]

@final
class Explanation:
    """The report on what fusion made of a function, and why. Its text is for people; a notebook shows
    it as a page.
    """
    @property
    def kernels_before(self) -> int:
        """The number of kernels without fusion, one an operation."""
    @property
    def kernels_after(self) -> int:
        """The number of kernels that run."""
    @property
    def bytes_before(self) -> int | None:
        """The bytes that cross between memory and caches without fusion, if the sizes are known."""
    @property
    def bytes_after(self) -> int | None:
        """The bytes that cross between memory and caches, if the sizes are known."""
    def to_json(self) -> str:
        """The report with the fields that `docs/json.md` lists, as one line."""
    def to_html(self) -> str:
        """The report as a page that needs no other file."""
    def _repr_html_(self) -> str: ...

@final
class Benchmark:
    """The measured gain from fusion. Its text is a table; a notebook shows it as a page."""
    @property
    def ratio(self) -> float:
        """The time of the fused function, relative to that of the unfused one."""
    @property
    def seconds(self) -> float:
        """The median time of a call of the fused function, in seconds."""
    def to_json(self) -> str:
        """The measurements with the fields that `docs/json.md` lists, as one line."""
    def to_html(self) -> str:
        """The measurements as a page that needs no other file."""
    def _repr_html_(self) -> str: ...

@final
class DeviceArray:
    """An array in the memory of a GPU, as a call gives it where arguments come from no library that is
    known. Others take it without a copy by DLPack and `__cuda_array_interface__`:
    `cupy.from_dlpack(x)`, `torch.from_dlpack(x)`. It may be an argument of another call.
    """
    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes."""
    @property
    def dtype(self) -> str:
        """The name of the type of the elements, as NumPy calls it."""
    def numpy(self) -> Any:
        """Copies the elements into an array of NumPy, once they are computed."""
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...
    def __dlpack__(self, *, stream: int | None = None, **options: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

@final
class Function:
    """A function of a program. Calling it with NumPy arrays, or with tensors of torch or JAX, gives
    its result, or a named tuple of its results, as arrays of the same library. Arguments must be of
    the type of their parameter, and nobody may write to them during the call. They are read where
    they lie; only small views are copied. The interpreter is free meanwhile, and Ctrl-C ends a call
    on the CPU.

    `out` is an array, or one for each result, to write to. `threads` is the number of threads that
    may work on the call; 0 stands for one a core. `stream` is the CUDA stream to order a call with
    whose arrays are in the memory of a GPU, by default those of the arrays' libraries.
    """
    __name__: str
    # Results are arrays of the library that the arguments come from: of NumPy, torch or JAX.
    def __call__(self, *args: Any, out: Any = None, threads: int = 0, stream: Any = None, **kwargs: Any) -> Any: ...
    @property
    def signature(self) -> str:
        """The parameters, the results and the conditions that the sizes of a call must meet, as text."""
    @property
    def names(self) -> list[str]:
        """The names of the parameters."""
    @property
    def floats(self) -> list[bool]:
        """Whether each parameter is a `float`."""
    @property
    def params(self) -> list[str]:
        """The type of each parameter."""
    @property
    def results(self) -> list[str]:
        """The type of each result."""
    @property
    def module(self) -> Module:
        """The module that the function is part of."""
    def explain(self, **sizes: int) -> Explanation:
        """Explains how fusion changes the function, with numbers for the sizes that are given by name."""
    def bench(self, **sizes: int) -> Benchmark:
        """Measures the function with and without fusion. A size that is not given is made large."""
    def check(self) -> str:
        """Checks that the function compiles, and gives its signature."""
    def emit(self, stage: Literal["ir", "schedule", "clif", "asm", "ptx", "cuda"]) -> str:
        """The function as text at a later stage: `ir`, `schedule`, `clif`, `asm`, `ptx` or `cuda`."""
    def gradient(self, *wrt: str) -> str:
        """The derivative of the function as a program, to read and change: in the parameters that are
        named, or else in all of floats. A `float` is an `f32` there. To call a derivative, take
        `fuseloop.grad`.
        """

@final
class Cells:
    """The functions of the cells that have been run."""
    def __new__(cls) -> Cells: ...
    def compile(self, source: str, *, name: str, device: Device, threads: int, math: Math) -> Module:
        """Compiles a text with the functions of cells that it calls. The module has its own functions
        alone.
        """
    def define(self, source: str, name: str) -> list[str]:
        """Makes the functions of a cell that has been compiled known to later cells. Returns the
        functions of other cells that call them.
        """
    def definition(self, name: str) -> tuple[str, str] | None:
        """The name of the cell of a function, and a text in which the function has its place there."""
    def forget(self, name: str) -> None:
        """Forgets a function."""

@final
class Module:
    """A program. Its functions are its attributes, `module.softmax`; `module["softmax"]` is the same,
    also for a function with the name of one of the methods.
    """
    def __getattr__(self, name: str, /) -> Function: ...
    def __getitem__(self, name: str, /) -> Function: ...
    def __contains__(self, name: str, /) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    @property
    def functions(self) -> list[str]:
        """The names of the functions, in the order of the source."""
    @property
    def name(self) -> str:
        """The name that errors use for the program: its path, if it was loaded."""
    @property
    def source(self) -> str:
        """The text of the program, without the files that it uses."""
    def check(self) -> str:
        """The signature of each function with its conditions, and the warnings about the program."""

def compile(
    source: str,
    *,
    name: str = "<source>",
    folder: str | PathLike[str] | None = None,
    device: Device = "cpu",
    threads: int = 0,
    max_memory: int | None = None,
    max_steps: int | None = None,
    math: Math = "exact",
) -> Module:
    """Compiles a program from its text.

    Each function is checked at once, and compiled to machine code when it is first called. Paths in
    `use "..."` start from `folder`, by default the current one. `device` is `cpu`, `gpu`, `auto` or
    `interp`; `threads` the number of threads that may work on a call, 0 for one a core. A call that
    takes more bytes than `max_memory`, or a loop of more steps than `max_steps`, ends in an error.
    `math="fast"` gives up exact bits for speed. Raises `fuseloop.Error`, with all errors of the
    text.
    """
def load(
    path: str | PathLike[str],
    *,
    device: Device = "cpu",
    threads: int = 0,
    max_memory: int | None = None,
    max_steps: int | None = None,
    math: Math = "exact",
) -> Module:
    """Compiles a program from a file. The options are those of `compile`."""
def unpickle(state: dict[str, Any]) -> Module:
    """A program that was pickled."""
def format(source: str) -> str:
    """The text of a program in the one style."""
def names() -> list[str]:
    """The names that the language defines."""
