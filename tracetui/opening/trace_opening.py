"""Opening a trace with what the user says about it: one way in for the commands and the app.

A file may not say where its steps begin, which GPU it ran on, or what was captured into its graphs. What the user or
another file says stands in the trace that is returned; the file is not changed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from tracetui.files import NO_FILE, is_url

if TYPE_CHECKING:
    from tracetui.model.trace import Trace
    from tracetui.reading.load_progress import LoadProgress


PICKLE = re.compile(r"\.(?:pickle|pkl)(?:\.gz|\.zst)?$")
"""Names of memory snapshots."""
_LOG = re.compile(r"\.log|\.jsonl|(?:otel|otlp|requests).*\.(?:json|txt)")


class OpenOptions(NamedTuple):
    """Options of the user for a trace, beside its path."""

    steps_by: str | None = None
    """Name of what counts as a step: an annotation, a function, a module or a graph."""
    device: str | None = None
    """Name of the GPU, whatever the trace says about it."""
    captures: tuple[str, ...] = ()
    """Files with the capture of the graphs that are replayed, folders with such files, or `none`."""
    uses_cache: bool = True
    """True where a trace that was read before may come from the cache, and one that is read goes there."""
    snapshot: str | None = None
    """File of a memory snapshot of the same run, or `none`; without it the only one beside the trace."""
    peak: float | None = None
    """Peak of the GPU in TFLOP/s, for MFU, whatever its model has."""
    flops: float | None = None
    """Operations of a step, for MFU, in place of those that the trace tells."""
    compile_log: str | None = None
    """File or folder with the log of torch.compile, or `none`; without it the one beside the trace."""
    requests: str | None = None
    """File with the requests of the server, or `none`; without it the only one beside the trace."""


AS_RECORDED = OpenOptions()
"""Nothing is said: steps and devices are those of the file."""


class SideName(NamedTuple):
    """A trace, or a part of one, by its names: `PATH#SCOPE`."""

    path: str
    scope: str = ""


def open_trace(
    path: str,
    options: OpenOptions = AS_RECORDED,
    progress: Callable[[LoadProgress], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Trace:
    """Read a trace as `load` does, with the steps, the device and the captures of graphs that the user chose.

    One that was read before comes from the cache; `keep_opened` puts it there, once there is time for it.
    Raises: TraceError for the file; UsageError for steps that the trace does not have, or an unknown device.
    """
    # These load numpy, which the names above can do without.
    from dataclasses import replace

    from tracetui.devices.descriptions import with_device
    from tracetui.linking.step_sources import with_steps
    from tracetui.opening.capture_files import with_captures

    if options.uses_cache:
        from tracetui.opening.kept_traces import add_results, read_trace

        trace = read_trace(path, progress, cancelled)
    else:
        from tracetui.reading.load import load

        trace = load(path, progress, cancelled)
    if options.device is not None:
        trace = with_device(trace, options.device)
    if options.peak is not None or options.flops is not None:
        trace = replace(trace, peak_tflops=options.peak, step_flops=options.flops, cache={})
    trace = with_captures(trace, options.captures, cancelled)
    if options.snapshot != NO_FILE and (candidates := [options.snapshot] if options.snapshot else _pickles(trace)):
        # Few traces have one.
        from tracetui.opening.files_beside import with_snapshot

        trace = with_snapshot(trace, candidates, options.snapshot is not None, progress, cancelled)
    beside = _log_names(path) if NO_FILE not in (options.compile_log, options.requests) else []
    has_log = "TORCH_TRACE" in os.environ or any(".log" in name for name in beside)
    if options.compile_log != NO_FILE and (options.compile_log or has_log):
        from tracetui.opening.capture_files import with_compile_log

        trace = with_compile_log(trace, options.compile_log, cancelled)
    if options.requests != NO_FILE and (options.requests or beside):
        from tracetui.opening.files_beside import with_requests

        trace = with_requests(trace, options.requests, cancelled)
    if options.uses_cache:
        add_results(trace)
    return trace if options.steps_by is None else with_steps(trace, options.steps_by)


def _pickles(trace: Trace) -> list[str]:
    """The files beside a trace that may be memory snapshots, by their names."""
    if trace.path is None or is_url(trace.path):
        return []
    try:
        with os.scandir(os.path.dirname(os.path.realpath(trace.path))) as files:
            return sorted(each.path for each in files if PICKLE.search(each.name))
    except OSError:
        return []


def _log_names(path: str) -> list[str]:
    """Names of files beside a trace that may be logs, of torch.compile or of a server."""
    try:
        return [name for name in os.listdir(os.path.dirname(path) or ".") if _LOG.search(name)]
    except OSError:
        return []


def keep_opened(trace: Trace, stopped: Callable[[], bool] | None = None) -> bool:
    """Write a trace that was opened to the cache, with what is known about it by now; whether there was need to.

    `stopped` is asked after every megabyte whether to give up. A trace that cannot be written is read again next time.
    """
    from tracetui.opening.kept_traces import keep_trace

    return keep_trace(trace, stopped or (lambda: False))
