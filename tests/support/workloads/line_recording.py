"""Records programs of `lined` with their lines: `python -m tests.support.workloads.line_recording FOLDER NAME...`."""

from __future__ import annotations

import sys
from pathlib import Path

from tracetui_workloads.programs import user_function
from tracetui_workloads.recording import trace_file
from tracetui_workloads.recording.lines import LineRecorder

PROGRAMS = Path(__file__).parent / "lined"


def main(folder: Path, names: list[str]) -> None:
    """Write a trace of one step of each program."""
    from torch.profiler import ProfilerActivity, profile, record_function

    for name in names:
        step = user_function.load(f"{PROGRAMS / name}.py:step")
        assert callable(step)
        lines = LineRecorder(PROGRAMS)
        lines.install()
        step()
        lines.switch(True)
        with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recorded:
            # The first operators of a recording take long.
            step()
            with record_function("step"):
                step()
        lines.restore()
        raw = folder / f"{name}.raw"
        recorded.export_chrome_trace(str(raw))
        trace_file.pack(raw, folder / f"{name}.json", folder / f"{name}.json")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
