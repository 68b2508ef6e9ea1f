"""Recognition of a Perfetto trace by its content.

A trace is a sequence of frames, each the byte 0x0A, a length and a packet. That byte is a newline as well, with which
JSON may begin: what looks like JSON is Perfetto only where frames in a row hold whole packets.
"""

from __future__ import annotations

import re

# Names of the fields of a packet, which say what kind of packet it is (`perfetto/trace/trace_packet.proto`).

PACKET_KINDS = {
    1: "ftrace_events",
    2: "process_tree",
    4: "inode_file_map",
    5: "chrome_events",
    6: "clock_snapshot",
    7: "sys_stats",
    9: "process_stats",
    11: "track_event",
    33: "trace_config",
    34: "ftrace_stats",
    35: "trace_stats",
    36: "synchronization_marker",
    37: "profile_packet",
    38: "battery",
    39: "android_log",
    40: "power_rails",
    43: "process_descriptor",
    44: "thread_descriptor",
    45: "system_info",
    46: "trigger",
    47: "packages_list",
    48: "chrome_benchmark_metadata",
    49: "perfetto_metatrace",
    50: "compressed_packets",
    51: "chrome_metadata",
    52: "gpu_counter_event",
    53: "gpu_render_stage_event",
    54: "streaming_profile_packet",
    57: "graphics_frame_event",
    60: "track_descriptor",
    61: "module_symbols",
    62: "vulkan_memory_event",
    63: "gpu_log",
    64: "deobfuscation_mapping",
    65: "vulkan_api_event",
    66: "perf_sample",
    67: "cpu_info",
    68: "smaps_packet",
    69: "service_event",
    70: "initial_display_state",
    71: "gpu_mem_total_event",
    72: "extension_descriptor",
    73: "memory_tracker_snapshot",
    74: "streaming_allocation",
    75: "streaming_free",
    77: "android_energy_estimation_breakdown",
    78: "ui_state",
    82: "translation_table",
    83: "android_game_intervention_list",
    84: "statsd_atom",
    86: "android_system_property",
    89: "trace_uuid",
    90: "track_event_range_of_interest",
    91: "entity_state_residency",
    95: "etw_events",
    99: "v8_js_code",
    100: "v8_internal_code",
    101: "v8_wasm_code",
    102: "v8_reg_exp_code",
    103: "v8_code_move",
    107: "remote_clock_sync",
    109: "chrome_trigger",
    110: "pixel_modem_events",
    111: "pixel_modem_token_database",
    113: "clone_snapshot_trigger",
    115: "kernel_wakelock_data",
    117: "generic_kernel_task_state_event",
    118: "generic_kernel_cpu_freq_event",
    119: "cpu_per_uid_data",
    120: "generic_kernel_task_rename_event",
    122: "generic_kernel_process_tree",
    123: "user_list",
    124: "trace_provenance",
    125: "protovms",
    126: "trace_attributes",
    127: "android_aflags",
    128: "gpu_info",
    129: "generic_gpu_frequency_event",
    130: "interrupt_info",
    131: "art_process_metadata",
    132: "journald_event",
    133: "zstd_compressed_packets",
    134: "concurrent_session_event",
    135: "stack_sample",
    138: "recovered_trace_info",
    900: "for_testing",
}
"""Kinds of packets by the number of the field that holds their content."""
ENVELOPE_FIELDS = frozenset({3, 8, 10, 12, 13, 41, 42, 58, 59, 79, 87, 98})
"""Fields about a packet and its sequence: time, flags, interned texts, defaults, the writer; no content."""


FRAME = 0x0A
MAX_PACKET = 1 << 28
"""Bytes that a packet is shorter than: protobuf's writers allow no longer message."""
MAX_VARINT = 10
"""Bytes of a varint."""
PROBED_FRAMES = 3
"""Frames that are looked at."""
PROBED_BYTES = 1 << 16
"""Bytes at the beginning of a file with which recognition is sure enough."""
MAX_FIELD = 1 << 29
_JSON = re.compile(rb'\s*[{\[][\s"{}\[\]\d]')
_WIRE_SIZES = {1: 8, 5: 4}


def is_perfetto(start: bytes, is_whole: bool) -> bool:
    """Tell whether a file that begins so is a Perfetto trace; `is_whole` where this is all of it."""
    if start[:1] != bytes([FRAME]) or not start.strip():
        return False
    complete, is_cut = frames_in_a_row(start)
    if is_cut is None:
        return False
    if _JSON.match(start):
        return complete >= PROBED_FRAMES or (is_whole and not is_cut)
    return complete > 0 or (is_cut and _begins_like_a_packet(start))


def _begins_like_a_packet(start: bytes) -> bool:
    """Tell whether the first field of the first packet is one that packets have."""
    _, body = read_varint(start, 1, len(start))
    tag, _ = read_varint(start, max(body, 1), len(start))
    return body > 0 and (tag >> 3 in PACKET_KINDS or tag >> 3 in ENVELOPE_FIELDS)


def frames_in_a_row(start: bytes, index: int = 0) -> tuple[int, bool | None]:
    """Number of whole frames from an index on, and whether the bytes end within the next; None where one is none.

    No more than `PROBED_FRAMES` are looked at.
    """
    complete = 0
    while index < len(start) and complete < PROBED_FRAMES:
        if start[index] != FRAME:
            return complete, None
        length, body = read_varint(start, index + 1, len(start))
        if body < 0:
            return complete, True if len(start) - index <= MAX_VARINT else None
        if length >= MAX_PACKET:
            return complete, None
        end = body + length
        walked = _is_packet(start, body, min(end, len(start)), is_cut=end > len(start))
        if not walked:
            return complete, None
        if end > len(start):
            return complete, True
        complete += 1
        index = end
    return complete, False


def _is_packet(start: bytes, index: int, end: int, is_cut: bool) -> bool:
    """Tell whether fields of known wire types fill a packet to its end, or as far as it was read."""
    while index < end:
        tag, index = read_varint(start, index, end)
        if index < 0:
            return is_cut
        wire = tag & 7
        if not 0 < tag >> 3 < MAX_FIELD or wire not in (0, 1, 2, 5):
            return False
        if wire == 0:
            _, index = read_varint(start, index, end)
            if index < 0:
                return is_cut
        elif wire == 2:
            length, index = read_varint(start, index, end)
            if index < 0:
                return is_cut
            if length >= MAX_PACKET:
                return False
            index += length
        else:
            index += _WIRE_SIZES[wire]
    return is_cut or index == end


def read_varint(data: bytes, index: int, end: int) -> tuple[int, int]:
    """The varint at an index and the index behind it, -1 where it does not end before `end` or is too long."""
    value = shift = 0
    for at in range(index, min(end, index + MAX_VARINT)):
        byte = data[at]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at + 1
        shift += 7
    return 0, -1
