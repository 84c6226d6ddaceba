"""The magics, and the notebooks of `examples`, which are run again and must give what they show.

`UPDATE_DOCS=1` writes what they give. A cell with the tag `varies` shows nothing in the repository.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("ipykernel")
nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"


@pytest.fixture
def shell() -> Iterator[Any]:
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    shell.colors = "nocolor"
    shell.run_line_magic("load_ext", "fuseloop")
    yield shell
    InteractiveShell.clear_instance()


def run(shell: Any, cell: str) -> Any:
    return shell.run_cell(cell, store_history=True)


SCALED = "%%fuseloop\nfn scaled(x: f32[n], by: f32) = x * by\nfn twice(x: float[n]) = 2 * x"


def test_a_cell_binds_its_functions(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(shell, SCALED).success
    assert capsys.readouterr() == ("", "")
    result = run(shell, "import numpy as np\nscaled(np.ones(2, np.float32), 3).tolist(), twice([1.0, 2.0] @ np.eye(2)).tolist()")
    assert result.result == ([3, 3], [2, 4])


def test_a_cell_with_a_name(shell: Any) -> None:
    assert run(shell, SCALED.replace("fuseloop", "fuseloop --name some --threads 1 --math fast --device interp")).success
    assert run(shell, "some.functions").result == ["scaled", "twice"]
    assert "scaled" not in shell.user_ns


def values(shell: Any, expression: str) -> Any:
    return run(shell, f"import numpy as np\nx = np.arange(3, dtype=np.float32)\n{expression}").result


def test_a_cell_calls_functions_of_earlier_ones(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(shell, "%%fuseloop\nuse stats (zscore)\nfn twice(x: f32[n]) = 2 * x\nfn unused(x: f32) = 1").success
    assert "W0002" in capsys.readouterr().err
    assert run(shell, "%%fuseloop\nfn more(x: f32[n]) = twice(x) + 1\nfn scores(x: f32[n]) = zscore(x)").success
    assert run(shell, "%%fuseloop --name own\nfn most(x: f32[n]) = more(x) + 1").success
    assert capsys.readouterr() == ("", "")
    assert values(shell, "more(x).tolist(), own.most(x).tolist(), own.functions") == ([1, 3, 5], [2, 4, 6], ["most"])
    assert values(shell, "import pickle; pickle.loads(pickle.dumps(more))(x).tolist()") == [1, 3, 5]
    # A view of another order is read by a program that is made of this one.
    assert values(shell, "more(np.arange(1e6, dtype=np.float32)[::-1])[:2].tolist()") == [1999999, 1999997]
    assert values(shell, "more.module.source") == "\nfn more(x: f32[n]) = twice(x) + 1\nfn scores(x: f32[n]) = zscore(x)\n"
    assert not run(shell, "%%fuseloop\nfn f(x: f32[n]) = most(x)").success, "a cell with a name keeps its functions"


def test_a_cell_replaces_functions_of_earlier_ones(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run(shell, "%%fuseloop\nfn step(x: f32[n]) = 2 * x")
    run(shell, "%%fuseloop --threads 1\nfn twice(x: f32[n]) = step(step(x))\nfn other(x: f32[n]) = x")
    run(shell, "%%fuseloop\nfn thrice(x: f32[n]) = step(twice(x))")
    run(shell, "other = twice")
    assert run(shell, "%%fuseloop\nfn step(x: f32[n]) = 3 * x").success
    assert values(shell, "thrice(x).tolist(), twice(x).tolist(), other(x).tolist()") == ([0, 27, 54], [0, 9, 18], [0, 4, 8])
    # The same cell again, and all in one.
    assert run(shell, "%%fuseloop\nfn step(x: f32[n]) = 3 * x").success
    assert run(shell, "%%fuseloop\nfn step(x: f32[n]) = x + 1\nfn twice(x: f32[n]) = 2 * step(x)").success
    assert values(shell, "thrice(x).tolist()") == [3, 5, 7]
    assert capsys.readouterr().err == ""


def test_a_function_that_does_not_fit_a_new_one_is_forgotten(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run(shell, "%%fuseloop\nfn step(x: f32[n]) = 2 * x")
    run(shell, "%%fuseloop\n\n# It goes on.\nfn twice(x: f32[n]) = step(step(x))")
    number = shell.execution_count
    assert run(shell, "%%fuseloop\nfn step(x: f32[n], by: f32) = by * x").success
    err = capsys.readouterr().err
    assert err.startswith("`twice` is forgotten, because it does not fit what it calls:\nerror[E")
    assert f"--> Cell In[{number - 1}]:4:23" in err
    assert "twice" not in shell.user_ns and values(shell, "step(x, 2).tolist()") == [0, 2, 4]
    assert not run(shell, "%%fuseloop\nfn f(x: f32[n]) = twice(x)").success


def test_a_cell_with_an_error_changes_nothing(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run(shell, "%%fuseloop\nfn step(x: f32[n]) = x[0]")
    number = shell.execution_count
    assert not run(shell, "%%fuseloop\nfn step(x: f32[n]) = 2 * x\nfn bad(x: f32[n]) = step(y)").success
    assert f"--> Cell In[{number}]:3:26" in capsys.readouterr().out
    assert run(shell, "%%fuseloop\nfn again(x: f32[n]) = step(x)").success
    # A fault in a function of another cell has its place there.
    assert not run(shell, "import numpy as np\nagain(np.ones(0, np.float32))").success
    assert f"--> Cell In[{number - 1}]:2:24" in capsys.readouterr().out
    assert not run(shell, "%%fuseloop\nlet x = 1").success


def test_errors_are_drawn_without_a_traceback(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert not run(shell, "%%fuseloop\n\nfn bad(x: f32[n]) = y\n").success
    out, err = capsys.readouterr()
    number = shell.execution_count - 1
    assert run(shell, "In").result[number].startswith("get_ipython")
    assert out.splitlines()[:4] == [
        "error[E0101]: there is no `y` here",
        f" --> Cell In[{number}]:3:21",
        "  |",
        "3 | fn bad(x: f32[n]) = y",
    ]
    assert "Traceback" not in out + err
    assert "bad" not in shell.user_ns


def test_warnings(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(shell, "%%fuseloop\nfn f(x: f32[n]) {\n    let y = x\n    x\n}").success
    assert capsys.readouterr().err.startswith("warning[W0001]: `y` is never used")


def test_explain(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run(shell, SCALED)
    run(shell, "import fuseloop as fl, numpy as np\nsize = 7\n@fl.jit\ndef traced(x):\n    return x + 1\ntraced(np.ones(3));")
    capsys.readouterr()
    assert run(shell, "%explain scaled n=size*2").success
    assert "moves 116 bytes" in capsys.readouterr().out
    assert run(shell, "%explain traced").success
    assert capsys.readouterr().out.startswith("traced: 1 operation in 1 kernel")


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("%explain", "takes the name of a function"),
        ("%explain absent", "`absent`: name 'absent' is not defined"),
        ("%explain 1", "`1` is of type `int`, not a compiled function"),
        ("%explain scaled n", "takes sizes after the name"),
        ("%explain scaled n=", "takes sizes after the name"),
        ("%explain scaled k=1", "there is no size `k`"),
        ("%explain scaled n=1.5", "the size `n` is a whole number, not 1.5"),
        ("%%fuseloop --nothing\nfn f() = 1", "unrecognized arguments: --nothing"),
        ("%%fuseloop --name 1\nfn f() = 1", "`1` is not a name of Python"),
        ("%%fuseloop --name 'a\nfn f() = 1", "No closing quotation"),
    ],
)
def test_mistakes_are_a_line(shell: Any, capsys: pytest.CaptureFixture[str], cell: str, message: str) -> None:
    run(shell, SCALED)
    assert not run(shell, cell).success
    out, err = capsys.readouterr()
    assert message in out + err and "Traceback" not in out + err


def test_a_cell_that_cannot_be_traced(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run(shell, "import fuseloop as fl, numpy as np\n@fl.jit\ndef clipped(x):\n    return x if x.sum() > 0 else -x\n")
    number = shell.execution_count
    assert not run(shell, "clipped(np.ones(3))").success
    assert f"--> Cell In[{number - 1}]:4, in clipped" in capsys.readouterr().out


def shown(output: Any) -> Any:
    """The part of an output that a reader sees."""
    if output.output_type == "stream":
        return (output.name, output.text)
    if output.output_type == "error":
        return "\n".join(output.traceback)
    return dict(output.data)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.stem)
def test_examples(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    committed = nbformat.read(path, as_version=4)
    fresh = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(fresh, timeout=300, kernel_name="python3", record_timing=False).execute(cwd=tmp_path)
    code = [(old, new) for old, new in zip(committed.cells, fresh.cells, strict=True) if new.cell_type == "code"]
    pages = 0
    for _, new in code:
        new.metadata.pop("execution", None)
        if "varies" in new.metadata.get("tags", ()):
            assert new.outputs
            new.outputs = []
        for output in new.outputs:
            output.get("metadata", {}).clear()
            if output.output_type == "error":
                # The lines of Python above it look otherwise in each version of IPython.
                output.traceback = output.evalue.splitlines()
            # A page draws the limits of this machine. Its text is the same everywhere.
            pages += output.get("data", {}).pop("text/html", "").startswith("<iframe")
    assert pages == len([new for _, new in code if new.source.startswith("%explain")])
    if os.environ.get("UPDATE_DOCS"):
        fresh.metadata = committed.metadata
        nbformat.write(fresh, path)
        return
    for old, new in code:
        assert [shown(output) for output in new.outputs] == [shown(output) for output in old.outputs]
