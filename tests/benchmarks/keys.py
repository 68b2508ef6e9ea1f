"""From a key to the last byte it painted, and how many bytes those were, on a terminal of 200x50."""

from __future__ import annotations

from pathlib import Path

from tests.benchmarks.pty_app import Answer, PtyApp

PRESSES = 40
"""Of every action, in one round."""
IDLE = 5.0
"""Seconds in which nothing is pressed."""

ACTIONS = {
    "next kernel": ("1", "."),
    "next step": (
        "1",
        "][",
    ),
    "switch pane": ("1", "2345"),
    "pan": ("\x1b[<0;90;9M\x1b[<0;90;9m", "ddddaaaa"),
    "zoom": ("", "wwwwssss"),
}
"""What to press first (a number opens a pane, the click is on the lanes), then the keys, pressed in turn."""


def run(trace: Path, rounds: int) -> None:
    """Open the trace once, press every key many times, and print medians and the 99th percentile."""
    with PtyApp(trace) as app:
        print(f"  first picture after {app.wait_for('Kernels'):.1f} s")
        for action, (first, keys) in ACTIONS.items():
            app.press(first, quiet=0.5)
            answers = [app.press(keys[i % len(keys)]) for i in range(PRESSES * rounds)]
            print(f"  {action:<12} {words([answer for answer in answers if answer])}")
        cpu = app.cpu_seconds()
        idle = app.watch(quiet=IDLE, patience=IDLE)
        used = (app.cpu_seconds() - cpu) / IDLE
        print(f"  {'idle':<12} {idle.bytes if idle else 0} bytes, {used:.1%} CPU in {IDLE:.0f} s")


def words(answers: list[Answer]) -> str:
    """Medians and 99th percentiles in words."""
    if not answers:
        return "nothing was painted"
    times = sorted(answer.seconds * 1000 for answer in answers)
    sizes = sorted(answer.bytes for answer in answers)
    middle, late = len(times) // 2, min(len(times) - 1, round(len(times) * 0.99))
    return (
        f"{times[middle]:6.1f} ms, p99 {times[late]:6.1f}; {sizes[middle]:7,} bytes, most {sizes[-1]:,}"
        f"  ({len(answers)} answers)"
    )
