"""A peer in a process of its own: `peer.py NAME THREADS`. It answers as our worker does (src/main.rs): requests on standard
input, answers on standard output, one JSON object a line.
"""

import ctypes
import gc
import json
import os
import sys
import time

import numpy as np

import workloads
from formulas import Jax, NumPy, Torch

#: Calls shorter than this, in seconds, are timed several at a time.
SHORTEST = 200e-6


class Missing(Exception):
    """This peer has no such workload."""


class NumpyPeer:
    def __init__(self, threads):
        self.xp, self.version = NumPy(), np.__version__

    def prepare(self, workload, dims, inputs):
        """The workload on these inputs as a function without parameters, that returns its results."""
        formula = self.xp.formula(workload.name)
        if formula is None:
            raise Missing
        return lambda: formula(*inputs)


class NumexprPeer:
    def __init__(self, threads):
        import numexpr

        import expressions

        numexpr.set_num_threads(threads)
        self.evaluate, self.version = numexpr.evaluate, numexpr.__version__
        self.expressions = expressions.EXPRESSIONS
        self.constants = {name: np.float32(value) for name, value in expressions.CONSTANTS.items()}

    def prepare(self, workload, dims, inputs):
        if workload.name not in self.expressions:
            raise Missing
        names = {i.name: array for i, array in zip(workload.inputs(*dims), inputs)} | self.constants
        lines = self.expressions[workload.name]
        shapes = workload.outputs(*dims)
        # A reduction cannot be told where to write.
        outputs = [None if shape != inputs[0].shape else np.empty(shape, workload.dtype) for shape in shapes]
        return lambda: [self.evaluate(e, names, {}, out=out) for e, out in zip(lines, outputs)]


class NumbaPeer:
    def __init__(self, threads):
        import numba

        import loops

        numba.set_num_threads(threads)
        self.loops, self.version = loops.LOOPS, numba.__version__

    def prepare(self, workload, dims, inputs):
        if workload.name not in self.loops:
            raise Missing
        loop = self.loops[workload.name]
        dtype = np.int64 if workload.name == "argmax" else workload.dtype
        outputs = [np.empty(shape, dtype) for shape in workload.outputs(*dims)]

        def call():
            loop(*inputs, *outputs)
            return outputs

        return call


class JaxPeer:
    def __init__(self, threads):
        self.xp = Jax()
        self.jax, self.version = self.xp.jax, self.xp.jax.__version__

    def prepare(self, workload, dims, inputs):
        formula = self.xp.formula(workload.name)
        if formula is None or workload.dtype == np.float64:  # which JAX takes for float32 unless it is told otherwise
            raise Missing
        inputs = [self.jax.device_put(array) for array in inputs]
        compiled, wait = self.jax.jit(formula), self.jax.block_until_ready
        return lambda: wait(compiled(*inputs))


class TorchPeer:
    compiled = False

    def __init__(self, threads):
        self.xp = Torch()
        self.torch, self.version = self.xp.module, self.xp.module.__version__
        self.torch.set_num_threads(threads)
        self.torch.set_num_interop_threads(1)

    def prepare(self, workload, dims, inputs):
        formula = self.xp.formula(workload.name)
        if formula is None:
            raise Missing
        if self.compiled:
            self.torch._dynamo.reset()
            formula = self.torch.compile(formula, dynamic=False, fullgraph=True)
        inputs = [self.torch.from_numpy(array) for array in inputs]

        def call():
            with self.torch.inference_mode():
                return formula(*inputs)

        return call


class InductorPeer(TorchPeer):
    compiled = True

    def prepare(self, workload, dims, inputs):
        if workload.name == "mandelbrot":
            raise Missing  # twenty steps in a row are not compiled within minutes
        return super().prepare(workload, dims, inputs)


class JitPeer:
    """Fuseloop itself from Python: `fuseloop.jit` of NumPy's formula, with memory for the results."""

    def __init__(self, threads):
        import fuseloop

        self.xp, self.jit, self.threads, self.version = NumPy(), fuseloop.jit, threads, "this one"

    def prepare(self, workload, dims, inputs):
        formula = self.xp.formula(workload.name)
        if formula is None:
            raise Missing
        # With as many parameters as inputs, since a call with a list of them takes longer.
        compiled = self.jit([lambda a: formula(a), lambda a, b: formula(a, b), lambda a, b, c: formula(a, b, c)][len(inputs) - 1])
        return self.into(compiled, workload, dims, inputs)

    def into(self, function, workload, dims, inputs):
        results = [np.empty(shape, workload.dtype) for shape in workload.outputs(*dims)]
        out = results[0] if len(results) == 1 else tuple(results)
        return lambda: function(*inputs, out=out, threads=self.threads)


class ProgramPeer(JitPeer):
    """Fuseloop itself from Python: the function of workloads.fl, with memory for the results."""

    def __init__(self, threads):
        import fuseloop

        super().__init__(threads)
        self.module = fuseloop.load(os.path.join(os.path.dirname(os.path.abspath(__file__)), "workloads.fl"))

    def prepare(self, workload, dims, inputs):
        return self.into(self.module[workload.function or workload.name], workload, dims, inputs)


#: Fuseloop from Python, which is compared with its peers in a table of its own (`--python`).
FROM_PYTHON = {"program": ProgramPeer, "jit": JitPeer}

PEERS = {
    "numpy": NumpyPeer,
    "numexpr": NumexprPeer,
    "numba": NumbaPeer,
    "jax": JaxPeer,
    "torch": TorchPeer,
    "inductor": InductorPeer,
}


def save_samples(name, results, folder):
    results = results if isinstance(results, (tuple, list)) else [results]
    files = []
    for number, result in enumerate(results):
        files.append(os.path.join(folder, f"{name}-{number}.npy"))
        np.save(files[-1], workloads.sample(np.asarray(result).reshape(-1)))
    return files


def repeat(call, times):
    start = time.perf_counter()
    for _ in range(times):
        call()
    return time.perf_counter() - start


class Worker:
    def __init__(self, name, threads):
        self.name, self.peer = name, (PEERS | FROM_PYTHON)[name](threads)
        self.call, self.times = None, 1

    def prepare(self, workload, size, inputs, samples):
        workload = workloads.ALL[workload]
        arrays = [np.load(file) for file in inputs]
        start = time.perf_counter()
        self.call = self.peer.prepare(workload, workload.sizes[size], arrays)
        results = self.call()
        first = time.perf_counter() - start
        outputs = save_samples(self.name, results, samples)
        del results
        self.times = 1
        repeat(self.call, 1)
        while (taken := repeat(self.call, self.times)) < SHORTEST:
            self.times *= 2
        return {"seconds": taken / self.times, "first": first, "outputs": outputs}

    def time(self, seconds):
        begin = time.perf_counter()
        self.call()
        times = []
        while not times or time.perf_counter() - begin < seconds:
            times.append(repeat(self.call, self.times) / self.times)
        return {"times": times}

    def free(self):
        """Gives the arrays' memory back to the system, which the allocator is told not to do by itself (run.py)."""
        self.call = None
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        return {}


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer

    def answer(**fields):
        print(json.dumps(fields), file=answers, flush=True)

    try:
        worker = Worker(sys.argv[1], int(sys.argv[2]))
    except ImportError as e:
        return answer(error=str(e))
    answer(version=worker.peer.version)
    gc.freeze()
    gc.disable()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer(**getattr(worker, request.pop("do"))(**request))
        except Missing:
            answer(missing=True)
        except Exception as e:  # a peer's failure is its own
            worker.call = None
            answer(error=f"{type(e).__name__}: {e}"[:300])


if __name__ == "__main__":
    main()
