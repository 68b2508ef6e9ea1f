"""One load of a trace by another program's parser, run by the Python of that program's environment.

`ENVIRONMENT/bin/python peer_child.py PEER TRACE` prints one JSON object. It imports nothing of this project, and its
imports happen before the clock starts. `events` and `activities` (kernels, copies and fills) are what the peer found,
None where asking would take longer than the load.
"""

import importlib
import json
import resource
import sys
import time
from pathlib import Path

GPU_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset")


def peak_bytes():
    """The largest resident size of this process so far; that of `getrusage` begins with the size of its parent."""
    try:
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def measured(load, path):
    """What the load returns, and its seconds and peak."""
    before, wall, cpu = peak_bytes(), time.perf_counter(), time.process_time()
    result = load(path)
    figures = {
        "wall": time.perf_counter() - wall,
        "cpu": time.process_time() - cpu,
        "peak": peak_bytes() - before,
    }
    return result, figures


def of_simdjson(path):
    """The whole file parsed, nothing read out of it."""
    parser = importlib.import_module("simdjson").Parser()
    document, figures = measured(parser.load, path)
    return {**figures, "events": len(document["traceEvents"]), "activities": None}


def of_hta(path):
    """HTA's `parse_trace_file`: a table of pandas."""
    parse_trace_file = importlib.import_module("hta.common.trace").parse_trace_file
    (_, table, symbols), figures = measured(parse_trace_file, path)
    numbers = [symbols.get_sym_id_map()[name] for name in GPU_CATEGORIES if name in symbols.get_sym_id_map()]
    return {**figures, "events": len(table), "activities": int(table["cat"].isin(numbers).sum())}


def of_tracelens(path):
    """The tree of TraceLens with Python's functions."""
    read = importlib.import_module("TraceLens.TreePerf").TreePerfAnalyzer.from_file
    analyzer, figures = measured(lambda name: read(name, add_python_func=True), path)
    events = analyzer.tree.events
    return {
        **figures,
        "events": len(events),
        "activities": sum(event.get("cat") in GPU_CATEGORIES for event in events),
    }


def of_hta_ranks(folder):
    """All ranks of a folder as HTA's `TraceAnalysis` loads them: a table of pandas each."""
    analysis = importlib.import_module("hta.trace_analysis").TraceAnalysis
    # Given a folder it takes every JSON file in it for the trace of a rank.
    files = {rank: str(path) for rank, path in enumerate(sorted(Path(folder).glob("rank*_trace.json.gz")))}
    loaded, figures = measured(lambda paths: analysis(trace_files=paths, trace_dir=""), files)
    return {**figures, "events": sum(map(len, loaded.t.traces.values())), "ranks": len(loaded.t.traces)}


LOADS = {"HTA-ranks": of_hta_ranks, "pysimdjson": of_simdjson, "HTA": of_hta, "TraceLens": of_tracelens}

if __name__ == "__main__":
    print("\n" + json.dumps(LOADS[sys.argv[1]](sys.argv[2])))
