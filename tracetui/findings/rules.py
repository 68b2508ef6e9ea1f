"""The list of all rules, of which each is in the file of its topic."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tracetui.findings.communication import (
    buffer_broadcast,
    cpu_communication,
    exposed_communication,
    small_collectives,
    straggler,
)
from tracetui.findings.cpu_work import (
    allocator,
    graph_breaks,
    graph_capture,
    recompilation,
    recompiled_in_log,
    start_up,
)
from tracetui.findings.fusion import attention_unfused, tiny_kernels, unfused_elementwise
from tracetui.findings.gemm import batchable_products, fp32_math, misaligned_products, small_batch_products
from tracetui.findings.idle import (
    before_first_kernel,
    cpu_inputs,
    data_loading,
    dependency,
    exposed_copy,
    host_sync,
    launch_overhead,
    long_gap_without_op,
    pageable_copy,
    peer_wait,
    stalled_thread,
    unrecorded_graph_work,
)
from tracetui.findings.kernel_times import low_waves, lower_clock, serialised_streams, uneven_kernels
from tracetui.findings.recording import (
    launches_missing,
    no_gpu,
    not_judged,
    not_pytorch,
    other_accelerator,
    own_profiler,
    stack_recording,
    untrusted,
)
from tracetui.findings.roofline import far_from_roofline, gather, layout_conversion
from tracetui.findings.scope import Finding, Scope
from tracetui.findings.step_rules import (
    cold_step,
    fixed_decode_cost,
    graph_launches_hold_up,
    held_up_step,
    idle_between_decodes,
    outlier_step,
    prefills_interrupt,
)
from tracetui.findings.training import missing_no_grad, optimizer_loop

RULES: tuple[Callable[[Scope], Iterator[Finding]], ...] = (
    untrusted,
    no_gpu,
    other_accelerator,
    graph_capture,
    data_loading,
    cpu_inputs,
    start_up,
    allocator,
    pageable_copy,
    exposed_copy,
    host_sync,
    stalled_thread,
    peer_wait,
    long_gap_without_op,
    before_first_kernel,
    launch_overhead,
    buffer_broadcast,
    dependency,
    unrecorded_graph_work,
    exposed_communication,
    cpu_communication,
    straggler,
    small_collectives,
    idle_between_decodes,
    graph_launches_hold_up,
    prefills_interrupt,
    fixed_decode_cost,
    cold_step,
    outlier_step,
    held_up_step,
    fp32_math,
    layout_conversion,
    misaligned_products,
    attention_unfused,
    gather,
    small_batch_products,
    batchable_products,
    low_waves,
    unfused_elementwise,
    far_from_roofline,
    uneven_kernels,
    lower_clock,
    tiny_kernels,
    optimizer_loop,
    serialised_streams,
    recompilation,
    graph_breaks,
    missing_no_grad,
    own_profiler,
    stack_recording,
    launches_missing,
    not_judged,
)
"""Rules for a trace of the PyTorch profiler; among findings of equal severity and cost the earlier rule comes first."""
FOREIGN_RULES: tuple[Callable[[Scope], Iterator[Finding]], ...] = (not_pytorch, recompiled_in_log)
"""Rules for any other trace."""
