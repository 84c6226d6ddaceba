"""Builds, checks results against NumPy in float64, and compares Fuseloop with its peers.

    pip install -r bench/requirements.txt        # NumPy and SciPy; each further peer that is not there is skipped
    python bench/run.py                          # everything: an hour
    python bench/run.py --only softmax,dot --sizes 1e6,16M --threads 2
    python bench/run.py --page                   # and rewrite the table and the plot of docs/performance.md

How it measures, and why so, is written in docs/performance.md.
"""

import argparse
import json
import os
import platform
import selectors
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import report
import workloads
from formulas import NumPy
from peer import FROM_PYTHON, PEERS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
BUILT = ROOT / "target" / "bench"
CPUS = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []

#: A round in which others had more of the processors than this does not count.
DISTURBED = 0.1

#: Seconds that a peer may take to compile a workload and run it.
PATIENCE = 300


def environment(threads):
    """For all workers alike. Memory that is freed is kept, in huge pages, so that nobody pays page faults for results: not every
    peer can write to memory of ours."""
    allocator = ["mmap_max=0", f"trim_threshold={1 << 60}", f"top_pad={64 << 20}", "arena_max=1", "hugetlb=1"]
    pools = ["OMP_NUM", "MKL_NUM", "OPENBLAS_NUM", "NUMBA_NUM", "NUMEXPR_MAX"]
    return os.environ | {
        **{f"{pool}_THREADS": str(threads) for pool in pools},
        "GLIBC_TUNABLES": ":".join(f"glibc.malloc.{setting}" for setting in allocator),
        "CUDA_VISIBLE_DEVICES": "",
        "JAX_PLATFORMS": "cpu",
        "NUMBA_CACHE_DIR": str(BUILT / "numba"),
        "TORCHINDUCTOR_CACHE_DIR": str(BUILT / f"inductor{threads}"),
    }


class Worker:
    """A process that prepares a task and times it."""

    def __init__(self, command, threads, alone, log):
        def place():
            if CPUS:
                os.sched_setaffinity(0, CPUS[-1:] if threads == 1 else CPUS[:threads])
            if alone:
                os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))

        pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, bufsize=1)
        self.process = subprocess.Popen(command, env=environment(threads), preexec_fn=place, **pipes)
        self.ready = selectors.DefaultSelector()
        self.ready.register(self.process.stdout, selectors.EVENT_READ)

    def answer(self):
        if not self.ready.select(PATIENCE):
            self.stop()
            return {"error": f"no answer within {PATIENCE} s"}
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"error": f"ended: {self.process.wait()}"}

    def ask(self, **request):
        try:
            print(json.dumps(request), file=self.process.stdin, flush=True)
        except BrokenPipeError:
            return {"error": "ended"}
        return self.answer()

    def stop(self):
        self.process.kill()
        self.process.wait()

    def seconds(self):
        """Processor time that it has used."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def busy():
    """Processor time that all processes of the machine have used."""
    try:
        fields = [int(n) for n in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    except OSError:
        return 0
    return (sum(fields[:3]) + sum(fields[5:8])) / os.sysconf("SC_CLK_TCK")


class Bench:
    def __init__(self, options):
        self.options = options
        BUILT.mkdir(parents=True, exist_ok=True)
        self.log = open(BUILT / "log.txt", "w")
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.folder = Path(tempfile.mkdtemp(prefix="fuseloop-bench-", dir=memory))
        self.workers, self.versions, self.cells = {}, {}, []

    def close(self):
        for worker in self.workers.values():
            worker.stop()
        shutil.rmtree(self.folder)

    def ours(self, threads):
        return self.worker([ROOT / "target" / "release" / "bench-worker"], threads)

    def worker(self, command, threads):
        return Worker(command, threads, self.options.alone, self.log)

    def peer(self, name, threads):
        """The peer's process, which stays. None if it cannot be had."""
        if name not in self.versions or (name, threads) not in self.workers and self.versions[name]:
            worker = self.worker([sys.executable, HERE / "peer.py", name, str(threads)], threads)
            hello = worker.answer()
            self.versions[name] = hello.get("version")
            if "error" in hello:
                print(f"{name} is skipped: {hello['error']}")
                worker.stop()
            else:
                self.workers[name, threads] = worker
        return self.workers.get((name, threads))

    def run(self, workload, label):
        """One workload at one size, with each number of threads."""
        dims = workload.sizes[label]
        seed = sum(map(ord, workload.name))
        arrays = [i.make(seed) for i in workload.inputs(*dims)]
        files = [str(self.folder / f"{i.name}.npy") for i in workload.inputs(*dims)]
        for file, array in zip(files, arrays):
            np.save(file, array)
        expected = reference(workload, arrays)
        del arrays
        digests = set()
        for threads in self.options.threads:
            task = {"workload": workload.name, "size": label, "inputs": files, "samples": str(self.folder)}
            cell = self.cell(workload, dims, label, threads, task, expected)
            digests.add(cell["runs"].get("fuseloop", {}).get("digest"))
            self.cells.append(cell)
            print(report.line(cell, self.cells), flush=True)
        if len(digests) > 1 and not workload.flops:
            print(f"  {workload.name} {label}: the numbers of threads differ in bits")
        for file in files:
            os.remove(file)

    def cell(self, workload, dims, label, threads, task, expected):
        runs, failed, workers, ours = {}, {}, {}, []
        ceiling = workload.ceiling(dims)
        read, written = workload.bytes(dims)
        for kind in [ceiling] if ceiling in ("read", "fma") else [ceiling, f"{ceiling}_nt"]:
            workers[kind] = self.ours(threads)
            request = {"do": "ceiling", "kind": kind, "bytes": read + written, "threads": threads}
            runs[kind] = workers[kind].ask(**request)
        workers["fuseloop"] = self.ours(threads)
        function = workload.function or workload.name
        request = {"do": "prepare", "program": str(HERE / "workloads.fl"), "function": function, "fuse": True}
        request |= {"inputs": task["inputs"], "samples": task["samples"], "threads": threads}
        runs["fuseloop"] = workers["fuseloop"].ask(**request)
        ours = list(workers.values())
        for name in self.options.peers + (list(FROM_PYTHON) if self.options.python else []):
            if name == "numpy" and threads > 1 and not workload.flops:
                continue  # its threads are those of its matrix products
            if (worker := self.peer(name, threads)) is None:
                continue
            answer = worker.ask(do="prepare", **task)
            if "missing" not in answer:
                workers[name], runs[name] = worker, answer
        for name, run in list(runs.items()):
            error = run.get("error") or wrong(workload, expected, run.pop("outputs", None))
            if error:
                print(f"  {name} {workload.name} {label}, {threads}: {error}", flush=True)
                failed[name] = error
                del runs[name], workers[name]
        others = self.measure(workers, runs)
        for worker in ours:
            worker.stop()
        for name in workers.keys() - {"fuseloop"}:
            if name in PEERS or name in FROM_PYTHON:
                workers[name].ask(do="free")
        fields = {"workload": workload.name, "group": workload.group, "size": label, "threads": threads}
        fields |= {"bytes": read + written, "flops": workload.flops and workload.flops(*dims), "others": others}
        return fields | {"ceiling": ceiling, "runs": runs, "failed": failed}

    def compiling(self):
        """How long compiling takes: of each example, the function that takes longest."""
        worker, slowest = self.ours(os.cpu_count() or 1), {}
        for program in sorted((ROOT / "examples").glob("*.fl")):
            answer = worker.ask(do="compile", program=str(program), rounds=5 * self.options.rounds)
            functions = answer.get("functions", [])
            if functions:
                slowest[program.stem] = max(functions, key=report.total)
        worker.stop()
        return slowest

    def measure(self, workers, runs):
        """Runs rounds in which all take turns, each round starting with another. Sets `seconds` of each run to the median of its medians, `spread`
        to their relative range, and `least` to its shortest time. Disturbed rounds are left out, if enough others remain."""
        names = list(workers)
        rounds = self.options.rounds
        found, least, others = {name: [] for name in names}, {name: float("inf") for name in names}, []
        mine = lambda: time.process_time() + sum(worker.seconds() for worker in workers.values())
        for number in range(rounds):
            start, before = time.perf_counter(), busy() - mine()
            for turn in range(len(names)):
                name = names[(number + turn) % len(names)]
                answer = workers[name].ask(do="time", seconds=self.options.seconds)
                times = answer.get("times", [float("inf")])
                found[name].append(statistics.median(times))
                least[name] = min(least[name], *times)
            used = busy() - mine() - before
            others.append(max(0, used / (time.perf_counter() - start) / (len(CPUS) or os.cpu_count())))
        quiet = [n for n, share in enumerate(others) if share < DISTURBED]
        if len(quiet) < min(3, rounds):
            quiet = range(rounds)
        for name in names:
            times = [found[name][n] for n in quiet]
            median = statistics.median(times)
            spread = (max(times) - min(times)) / median
            runs[name] |= {"seconds": median, "rounds": times, "spread": spread, "least": least[name]}
        return [round(share, 3) for share in others]


def reference(workload, arrays):
    """Samples of NumPy's results in float64."""
    wide = [a.astype(np.float64) if a.dtype == np.float32 else a for a in arrays]
    name = "attention" if workload.name == "attention_lib" else workload.name
    with np.errstate(all="ignore"):
        results = NumPy().formula(name)(*wide)
    results = results if isinstance(results, tuple) else (results,)
    return [workloads.sample(np.asarray(r, np.float64).reshape(-1)) for r in results]


def wrong(workload, expected, files):
    """The error in a result, from files with its samples; None if nothing is."""
    if files is None:
        return None
    if len(files) != len(expected):
        return f"{len(files)} results, not {len(expected)}"
    for number, (file, right) in enumerate(zip(files, expected)):
        found = np.load(file).astype(np.float64)
        os.remove(file)
        if found.shape != right.shape:
            return f"{found.size} samples of result {number}, not {right.size}"
        allowed = workload.tolerance * (abs(right) + np.mean(abs(right)))
        if count := np.count_nonzero(~(abs(found - right) <= allowed) & ~(np.isnan(found) & np.isnan(right))):
            at = np.argmax(abs(found - right))
            return f"{count} of {right.size} samples of result {number} are wrong: {found[at]} for {right[at]}"
    return None


def machine():
    model = ""
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return f"{model or platform.processor()}, {os.cpu_count()} processors, {platform.system()}"


def main():
    words = lambda text: text.split(",")
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", type=words, help="these workloads: relu_bias,softmax")
    parser.add_argument("--sizes", type=words, help="these sizes: 1e6,16M")
    parser.add_argument("--largest", action="store_true", help="the largest size of each workload alone")
    parser.add_argument("--threads", type=lambda t: [int(n) for n in words(t)], default=[1, 2], help="1,2")
    parser.add_argument("--peers", type=words, default=list(PEERS), help=",".join(PEERS))
    parser.add_argument("--python", action="store_true", help="Fuseloop called from Python too: the package is installed")
    parser.add_argument("--rounds", type=int, default=5, help="5")
    parser.add_argument("--seconds", type=float, default=0.04, help="for each turn of a round")
    parser.add_argument("--alone", action="store_true", help="shut other processes out during turns; takes root")
    parser.add_argument("--json", type=Path, default=BUILT / "results.json", help="where the figures go")
    parser.add_argument("--page", action="store_true", help="write the table and the plot of docs/performance.md")
    parser.add_argument("--list", action="store_true", help="say what there is to measure")
    options = parser.parse_args()
    if options.list:
        for workload in workloads.ALL.values():
            print(f"{workload.group:13} {workload.name:14}", *workload.sizes)
        return
    for name in options.only or []:
        if name not in workloads.ALL:
            parser.error(f"there is no workload {name}: see --list")
    subprocess.run(["cargo", "build", "--release", "-p", "bench"], cwd=ROOT, check=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that the workers end too
    bench = Bench(options)
    try:
        compiling = bench.compiling()
        for workload in workloads.ALL.values():
            if options.only and workload.name not in options.only:
                continue
            labels = list(workload.sizes)[-1:] if options.largest else list(workload.sizes)
            for label in labels:
                if not options.sizes or label in options.sizes:
                    bench.run(workload, label)
                    results = {"machine": machine(), "date": time.strftime("%Y-%m-%d"), "versions": bench.versions}
                    results |= {"rounds": options.rounds, "cells": bench.cells, "compiling": compiling}
                    whole = options.json.with_suffix(".new")
                    whole.write_text(json.dumps(results, indent=1))
                    whole.replace(options.json)
    finally:
        bench.close()
    for cell in report.exceeding(bench.cells):
        print(f"above its ceiling, so measure it again: {cell}")
    if options.python and bench.cells:
        print(report.python_table(results))
    if options.page and bench.cells:
        report.write_page(results, ROOT / "docs")


if __name__ == "__main__":
    main()
