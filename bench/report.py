"""Figures of a run as text: a line for each cell, the table and the plot of docs/performance.md.

    python bench/report.py target/bench/results.json          # the table
    python bench/report.py --page target/bench/results.json   # into the page
"""

import argparse
import json
import math
import statistics
from pathlib import Path

from peer import FROM_PYTHON, PEERS

#: The tables stand between these lines of the page.
BEGIN, END = "<!-- bench/run.py: from here -->", "<!-- bench/run.py: to here -->"


def time(seconds):
    micros = seconds * 1e6
    return f"{micros:.1f}" if micros < 10 else f"{micros:,.0f}"


def best_peer(cell):
    peers = [name for name in PEERS if name in cell["runs"]]
    return min(peers, key=lambda name: cell["runs"][name]["seconds"], default=None)


def ratio(cell, name=None):
    """A peer's time over ours: the median over the rounds, where both ran in each. The best peer's unless another is named."""
    name = name or best_peer(cell)
    ours = cell["runs"].get("fuseloop")
    if name is None or ours is None:
        return None
    return statistics.median(p / o for p, o in zip(cell["runs"][name]["rounds"], ours["rounds"]))


def rate(cell):
    """Of our run: GB/s of the bytes that must be moved, or GFLOP/s."""
    return (cell["flops"] or cell["bytes"]) / cell["runs"]["fuseloop"]["seconds"] / 1e9


def ceilings(cells):
    """The best rate seen for each kind of ceiling, number of bytes and number of threads, next to any workload: a disturbance
    can only lower a ceiling."""
    best = {}
    for cell in cells:
        amount = cell["threads"] * (1 << 20) if cell["ceiling"] == "fma" else cell["bytes"]
        for run in (cell["runs"].get(kind) for kind in (cell["ceiling"], f"{cell['ceiling']}_nt")):
            if run:
                best[key(cell)] = max(best.get(key(cell), 0), amount / run["least"] / 1e9)
    return best


def key(cell):
    """The parameters that a ceiling depends on."""
    return cell["ceiling"], 0 if cell["ceiling"] == "fma" else cell["bytes"], cell["threads"]


def share(cell, best):
    """Our rate relative to the ceiling's, and its spread over the rounds. None without a ceiling."""
    ours, ceiling = cell["runs"].get("fuseloop"), best.get(key(cell))
    return (rate(cell) / ceiling, ours["spread"]) if ours and ceiling else None


def exceeding(cells):
    """The cells whose share of the ceiling is above 1 by more than their spread, so that the ceiling must be wrong."""
    best = ceilings(cells)
    found = []
    for cell in cells:
        of = share(cell, best)
        if of and of[0] > 1 + of[1]:
            found.append(f"{cell['workload']} {cell['size']}, threads: {cell['threads']}: {of[0]:.2f} of {cell['ceiling']}")
    return found


def line(cell, cells):
    """A cell as a line for the terminal, relative to the ceilings measured so far."""
    start = f"{cell['workload']:14} {cell['size']:17} {cell['threads']} "
    if "fuseloop" not in cell["runs"]:
        return start + "failed"
    unit = "GFLOP/s" if cell["flops"] else "GB/s"
    of, spread = share(cell, ceilings(cells)) or (0, 0)
    above = " (ABOVE IT)" if of > 1 + spread else ""
    took = f"{time(cell['runs']['fuseloop']['seconds']):>9} us ±{spread / 2:.0%}"
    text = f"{took} {rate(cell):6.1f} {unit}, {of:4.0%} of {cell['ceiling']}{above}"
    peers = sorted((ratio(cell, name), name) for name in [*PEERS, *FROM_PYTHON] if name in cell["runs"])
    disturbed = " (disturbed)" if sum(share > 0.1 for share in cell["others"]) * 2 > len(cell["others"]) else ""
    return start + text + "; " + ", ".join(f"{name} {r:.2f}" for r, name in peers) + disturbed


def table(results):
    """All cells as a table, a row for each workload and size."""
    by = {}
    for cell in results["cells"]:
        by.setdefault((cell["workload"], cell["size"]), {})[cell["threads"]] = cell
    threads = sorted({cell["threads"] for cell in results["cells"]}, reverse=True)
    best = ceilings(results["cells"])
    heads = [f"{'1 thread' if n == 1 else f'{n} threads'}, us | spread | of ceiling | best peer | ratio" for n in threads]
    lines = [f"| workload | size | MB | {' | '.join(heads)} |", "|---|---|--:|" + "--:|--:|--:|---|--:|" * len(threads)]
    for (workload, size), cells in by.items():
        parts = []
        for n in threads:
            cell = cells.get(n)
            name = cell and best_peer(cell)
            if not cell or "fuseloop" not in cell["runs"]:
                parts += ["-"] * 5
                continue
            ours, peer = cell["runs"]["fuseloop"], name and cell["runs"][name]["seconds"]
            of = share(cell, best)
            parts += [time(ours["seconds"]), f"{ours['spread']:.0%}", f"{of[0]:.2f}" if of else "-"]
            parts += [f"{name} {time(peer)}", f"{ratio(cell):.2f}"] if name else ["-", "-"]
        megabytes = next(iter(cells.values()))["bytes"] / 1e6
        lines.append(f"| {workload} | {size} | {megabytes:.2f} | {' | '.join(parts)} |")
    return "\n".join(lines)


def python_table(results):
    """Calls from Python with memory for the results: each one's time over that of the call from Rust, the median over the
    rounds; below it the peers that are called from Python likewise."""
    names = [*FROM_PYTHON, "numexpr", "numba"]
    lines = [f"| workload | size | threads | Rust, us | spread | {' | '.join(names)} |", "|---|---|--:|--:|--:|" + "--:|" * len(names)]
    for cell in results["cells"]:
        ours = cell["runs"].get("fuseloop")
        if ours and FROM_PYTHON.keys() & cell["runs"].keys():
            ratios = [f"{ratio(cell, name):.2f}" if name in cell["runs"] else "-" for name in names]
            start = [cell["workload"], cell["size"], cell["threads"], time(ours["seconds"]), f"{ours['spread']:.0%}"]
            lines.append(f"| {' | '.join(map(str, start + ratios))} |")
    return "\n".join(lines)


STAGES = {"parse": "parse", "check": "check", "lower": "lower and fuse", "code": "machine code"}


def total(compiled):
    """Seconds from text to something that can be called."""
    return sum(compiled[stage] for stage in STAGES)


def compile_table(results):
    """How long compiling takes, stage by stage."""
    lines = [f"| example | function | ms | {' | '.join(STAGES.values())} |", "|---|---|--:|" + "--:|" * len(STAGES)]
    for example, compiled in sorted(results["compiling"].items(), key=lambda item: -total(item[1])):
        times = [f"{t * 1e3:.2f}" for t in [total(compiled), *(compiled[stage] for stage in STAGES)]]
        lines.append(f"| {example} | {compiled['name']} | {' | '.join(times)} |")
    return "\n".join(lines)


COLOURS = dict(zip(PEERS, ["#7f7f7f", "#8c6d31", "#2ca02c", "#1f77b4", "#d62728", "#ff7f0e"]))

STYLE = """text { font: 12px sans-serif; fill: #333 } .grid { stroke: #ddd } .one { stroke: #333; stroke-width: 1.5 }
.bar { stroke: #bbb; stroke-width: 2 } .right { text-anchor: end } .middle { text-anchor: middle }
@media (prefers-color-scheme: dark) { text { fill: #ccc } .grid { stroke: #444 } .one { stroke: #ccc } .bar { stroke: #666 } }"""


def plot(results):
    """The largest size of each workload with the most threads: each peer's time over ours, a dot on a logarithmic axis. What is
    off it stands at its end."""
    most = max(cell["threads"] for cell in results["cells"])
    last = {c["workload"]: c for c in results["cells"] if c["threads"] == most and "fuseloop" in c["runs"]}
    ratios = {w: {name: ratio(c, name) for name in PEERS if name in c["runs"]} for w, c in last.items()}
    low, high = -3, 4
    left, top, width, step = 190, 56, 560, 19
    height = top + step * len(ratios)
    x = lambda r: left + width * (min(max(math.log2(r), low), high) - low) / (high - low)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 20} {height + 34}">']
    out.append(f"<style>{STYLE}</style>")
    for i, (name, colour) in enumerate(COLOURS.items()):
        out.append(f'<circle cx="{left + 90 * i}" cy="14" r="4.5" fill="{colour}"/>')
        out.append(f'<text x="{left + 90 * i + 9}" y="18">{name}</text>')
    for power in range(low, high + 1):
        at, style = x(2.0**power), "one" if power == 0 else "grid"
        label = f"{2**power}" if power >= 0 else f"1/{2**-power}"
        out.append(f'<line class="{style}" x1="{at:.1f}" x2="{at:.1f}" y1="{top - 12}" y2="{height}"/>')
        out.append(f'<text class="middle" x="{at:.1f}" y="{top - 18}">{label}</text>')
    for row, (workload, of) in enumerate(ratios.items()):
        y = top + step * row + 6
        out.append(f'<text class="right" x="{left - 12}" y="{y + 4}">{workload} {last[workload]["size"].split("v")[0]}</text>')
        if of:
            ends = [x(min(of.values())), x(1)]
            out.append(f'<line class="bar" x1="{min(ends):.1f}" x2="{max(ends):.1f}" y1="{y}" y2="{y}"/>')
        for name, r in of.items():
            title = f"<title>{name}: {r:.2f}</title>"
            out.append(f'<circle cx="{x(r):.1f}" cy="{y}" r="4.5" fill="{COLOURS[name]}">{title}</circle>')
    caption = f"time of each peer / time of Fuseloop, {most} threads, largest size; right of 1, Fuseloop is faster"
    out.append(f'<text class="middle" x="{left + width / 2}" y="{height + 22}">{caption}</text>')
    return "\n".join(out + ["</svg>"]) + "\n"


def summary(results):
    """On what machine and compared with whom."""
    there = ", ".join(f"{name} {version}" for name, version in results["versions"].items() if version)
    absent = ", ".join(name for name, version in results["versions"].items() if not version)
    absent = f" Not there: {absent}." if absent else ""
    return f"{results['machine']}, {results['date']}, {results['rounds']} rounds. Compared with {there}.{absent}"


#: What stands before the second table.
COMPILING = """## Compiling

From text to something that can be called, for arrays of every size: of each example the function that takes longest, in milliseconds, the median of some runs,
of which all but the first find the compiler's own tables in memory."""


def write_page(results, docs):
    """Writes the tables and the plot to the page. Exits with an error if a figure is above its ceiling."""
    if wrong := exceeding(results["cells"]):
        raise SystemExit("\n  ".join(["the page stays as it is: these are above their ceilings, so measure them again", *wrong]))
    (docs / "performance.svg").write_text(plot(results))
    page = docs / "performance.md"
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{summary(results)}\n\n{table(results)}\n\n{COMPILING}\n\n{compile_table(results)}\n\n{END}{after}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("results", type=Path, help="what run.py wrote")
    parser.add_argument("--page", action="store_true", help="write docs/performance.md and its plot")
    options = parser.parse_args()
    results = json.loads(options.results.read_text())
    if options.page:
        write_page(results, Path(__file__).resolve().parent.parent / "docs")
    else:
        print(table(results))


if __name__ == "__main__":
    main()
