"""A process that behaves as Kineto does inside a job: it asks, takes a configuration, writes a trace, asks again.

Run as a program: `python attached_job.py SOCKET_FOLDER BEHAVIOUR`, where the behaviour is `writes`, `refuses` (takes no
request), `dies` (ends while it records) or `silent` (asks for nothing).
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import time
import uuid

PERIOD = 0.05
"""Seconds between two questions; Kineto lets five pass."""
EVENTS = [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 5}]


def question(is_free):
    content = struct.pack("=iiqi", 3 if is_free else 1, 1, 0, os.getpid())
    return struct.pack("=Q32s", len(content), b"req") + content


def main(folder, behaviour):
    asking = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    asking.bind(os.path.join(folder, f"dynoconfigclient{uuid.uuid4()}"))
    asking.settimeout(PERIOD)
    print("ready", flush=True)
    path = ""
    turns_left = 0
    while True:
        time.sleep(PERIOD)
        if turns_left:
            turns_left -= 1
            if not turns_left:
                write(path, behaviour)
        if behaviour == "silent":
            continue
        try:
            asking.sendto(question(not turns_left), os.path.join(folder, "dynolog"))
            answer = asking.recv(65_536)
        except OSError:
            # Nobody is attached, or nobody has answered yet.
            continue
        lines = dict(line.partition("=")[::2] for line in answer[40:].decode().splitlines())
        if lines and behaviour != "refuses":
            path = lines["ACTIVITIES_LOG_FILE"].removesuffix(".json") + f"_{os.getpid()}.json"
            if not path.startswith(os.environ.get("KINETO_ONDEMAND_TRACE_DIR", "/tmp").rstrip("/") + "/"):
                # As torch 2.15 does, though it writes then to where nobody looks for it.
                path = "/dev/null/not-allowed"
            print(json.dumps(lines), flush=True)
            turns_left = 3


def write(path, behaviour):
    if behaviour == "dies":
        sys.exit(1)
    try:
        with open(path + ".tmp", "w") as file:
            json.dump({"schemaVersion": 1, "traceEvents": EVENTS}, file)
        os.rename(path + ".tmp", path)
        print("written", flush=True)
    except OSError:
        print("not written", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
