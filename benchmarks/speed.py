"""Generated kernels beside OpenBLAS and PyTorch: products,
convolutions, reductions, attention, steps. Weeks 6 and 9.

Each side of a work runs in a process of its own, with as many threads as is said, and they take turns, round
by round. On one thread the CPU time counts, on more the time on the clock.

python benchmarks/speed.py [WORD ...]     only works whose name has one of the words
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

#: Seconds that a round of one side takes at least.
ROUND = 0.03
#: Libraries whose versions are told.
LIBRARIES = ("uopc", "numpy", "torch")


def worker(name: str, side: str) -> None:
    """Time one side of a work: a line of seconds a call for each line that comes."""
    from works import WORKS  # here, after the number of threads has been set

    clock = time.process_time if os.environ["OMP_NUM_THREADS"] == "1" else time.perf_counter
    run = WORKS[name].sides[side]()
    for _ in range(3):
        run()
    begin = time.perf_counter()
    run()
    calls = max(1, int(ROUND / max(time.perf_counter() - begin, 1e-9)))
    print("ready", flush=True)
    for _ in sys.stdin:
        begin = clock()
        for _ in range(calls):
            run()
        print((clock() - begin) / calls, flush=True)


def start(name: str, side: str, threads: int) -> subprocess.Popen[str]:
    counts = {f"{library}_NUM_THREADS": str(threads) for library in ("OMP", "OPENBLAS", "MKL")}
    return subprocess.Popen(
        [sys.executable, __file__, "--side", side, name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **counts},
    )


def ask(process: subprocess.Popen[str]) -> str:
    """The next line that a process prints. Raises RuntimeError where it ended."""
    out: IO[str] | None = process.stdout
    assert out is not None
    line = out.readline().strip()
    if not line:
        raise RuntimeError(f"{process.args!r} ended")
    return line


def measure(name: str, sides: list[str], threads: int, rounds: int) -> dict[str, float]:
    """The median time of each side in seconds."""
    running = {side: start(name, side, threads) for side in sides}
    try:
        for process in running.values():
            ask(process)
        found: dict[str, list[float]] = {side: [] for side in sides}
        for _ in range(rounds):
            for side, process in running.items():
                assert process.stdin is not None
                print(file=process.stdin, flush=True)
                found[side].append(float(ask(process)))
    finally:
        for process in running.values():
            process.kill()
            process.communicate()
    return {side: statistics.median(times) for side, times in found.items()}


def machine() -> dict[str, Any]:
    """What the numbers depend on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next(
        (line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine()
    )
    compiler = subprocess.run(
        [*os.environ.get("CC", "cc").split(), "--version"], capture_output=True, text=True, check=False
    ).stdout
    versions = {}
    for library in LIBRARIES:
        try:
            versions[library] = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            versions[library] = "none"
    return {
        "date": datetime.date.today().isoformat(),
        "cpu": model,
        "cpus": os.cpu_count(),
        "compiler": compiler.partition("\n")[0],
        "python": platform.python_version(),
        **versions,
    }


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """How many times faster ours is than the fastest peer,
    where there is one: a bar a work and number of threads.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = [row for row in rows if row["speedup"] is not None]
    figure = Figure(figsize=(9, 0.22 * len(rows) + 1), layout="constrained")
    axes = figure.add_subplot()
    axes.barh(
        [f"{row['work']}, {row['threads']}T" for row in rows], [row["speedup"] for row in rows], log=True
    )
    axes.axvline(1, color="black")
    axes.invert_yaxis()
    axes.set_xlabel("time of the fastest peer / ours")
    FigureCanvasAgg(figure).print_figure(path)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, nargs="+", default=sorted({1, min(2, os.cpu_count() or 1)}))
    parser.add_argument("--json", type=Path, help="write what was measured to this file")
    parser.add_argument("--plot", type=Path, help="draw it to this file (.png, .svg)")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.side:
        return worker(given.words[0], given.side)

    from works import WORKS

    about = machine()
    print(", ".join(f"{key} {value}" for key, value in about.items()))
    print(f"{'work':<62}{'T':>2}{'ours, ms':>10}{'GFLOP/s':>9}{'GB/s':>7}  {'peer, ms: time of it / ours'}")
    rows = []
    for work in WORKS.values():
        if given.words and not any(word in work.name for word in given.words):
            continue
        for threads in given.threads:
            found = measure(work.name, list(work.sides), threads, given.rounds)
            mine = found["ours"]
            peers = {side: seconds for side, seconds in found.items() if side != "ours"}
            speed = work.operations / mine / 1e9, work.bytes / mine / 1e9
            rows.append(
                {
                    "work": work.name,
                    "threads": threads,
                    "seconds": found,
                    "gflops": speed[0],
                    "gbytes": speed[1],
                    "speedup": min(peers.values()) / mine if peers else None,
                }
            )
            numbers = "".join(
                f"{s:>{w}.1f}" if s else f"{'-':>{w}}" for s, w in zip(speed, (9, 7), strict=True)
            )
            others = ", ".join(f"{side} {s * 1e3:.3f}: {s / mine:.2f}" for side, s in peers.items())
            print(f"{work.name:<62}{threads:>2}{mine * 1e3:>10.3f}{numbers}  {others}", flush=True)
    if given.json:
        given.json.write_text(json.dumps({"machine": about, "rows": rows}, indent=1) + "\n")
    if given.plot:
        plot(rows, given.plot)


if __name__ == "__main__":
    main()
