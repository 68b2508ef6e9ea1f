"""All columns of all tables, in alphabetical order: name in files and commands, heading, help, unit and look.

A column is declared once, here; a table that means something more particular by it says so where it makes the column
(`DUR_US.but(help="...")`). Headings are the same words on the screen, in text and in a report. They carry the unit
of shares and rates (`occ %`, `GB/s`) and of positions in time (`start µs`); durations, bytes and operations have theirs
in the cell.
"""

from __future__ import annotations

from dataclasses import replace

from tracetui.model.table import ColumnSpec, TextKind

A = ColumnSpec("a", "A", "Median over the parts of A.")
ABOUT = ColumnSpec("about", "about", "What the number is.", width=20, grow=2, text=TextKind.PROSE)
ABOVE_US = ColumnSpec("above_us", "above roof", "Time taken beyond that.", unit="us")
ACTIVITIES = ColumnSpec("activities", "activities", "Kernels, copies and fills.")
ACTIVITIES_PCT = ColumnSpec(
    "activities_pct", "of GPU %", "Share of the GPU activities of the trace that its runs launched.", unit="%"
)
ADDRESS = ColumnSpec("address", "address", "Where it begins.", text=TextKind.NAME, width=16, is_key=True)
ADVICE = ColumnSpec("advice", "advice", "What to do about it.", text=TextKind.PROSE, is_key=True)
AFTER = ColumnSpec("after", "then ran", "The activity that ended the gap.", width=14, grow=2, text=TextKind.KERNEL)
AFTER_ACTIVITIES = ColumnSpec(
    "after_activities",
    "after it",
    "GPU activities launched after the step and before the next one, which belong to none.",
)
AFTER_SYNC = ColumnSpec(
    "after_sync",
    "after sync",
    "Whether it began while the launching thread waited for the GPU, so that nothing was queued.",
)
AFTER_US = ColumnSpec("after_us", "GPU after", "Sum of the durations of these.", unit="us", of_servers=True)
ALLOCATED = ColumnSpec("allocated", "allocated", "Bytes that it allocated.", unit="bytes")
ALLOCS = ColumnSpec("allocs", "allocs", "How often it allocated.")
ALONE_US = ColumnSpec(
    "alone_us", "alone", "Median time of a step in which nothing of another purpose ran beside it.", unit="us"
)
ANNOTATION = ColumnSpec(
    "annotation",
    "annotation",
    "The innermost annotation around the launch, other than the step.",
    width=18,
    grow=1,
    text=TextKind.NAME,
    detail=1,
)
AOT_US = ColumnSpec("aot_us", "AOT", "Of it: AOTAutograd itself.", unit="us", detail=2)
APART_US = ColumnSpec(
    "apart_us",
    "apart",
    "From its start to the nearest start of the same compilation on another rank; null where no other rank made it.",
    unit="us",
    detail=1,
)
API = ColumnSpec("api", "call", "Name of the call.", width=16, grow=1, text=TextKind.NAME, is_key=True)
ATTENTION = ColumnSpec(
    "attention",
    "of context",
    "Whether its calls read the whole context, a part of it (faster than possible, as with a window), or nobody knows.",
    width=13,
)
ATTENTION_PCT = ColumnSpec("attention_pct", "attention %", "Share of GPU busy time: attention.", unit="%")
AT_PEAK = ColumnSpec(
    "at_peak", "at peak", "Bytes that it had allocated and that were in use when the device was fullest.", unit="bytes"
)
AT_PEAK_PCT = ColumnSpec("at_peak_pct", "% of peak", "Their share of what was in use then on that device.", unit="%")
AUTOTUNE_US = ColumnSpec("autotune_us", "autotune", "Of it: trying variants of kernels.", unit="us", detail=2)
A_BYTES = ColumnSpec("a_bytes", "bytes A", "Least bytes that these calls of A read and write.", unit="bytes")
A_SCATTER = ColumnSpec("a_scatter", "A scatters")
A_US = ColumnSpec("a_us", "A", "GPU time of all these calls in a part of A, at the middle of all parts.", unit="us")
B = ColumnSpec("b", "B", "Median over the parts of B.")
BACKWARD_CPU_US = ColumnSpec(
    "backward_cpu_us",
    "backward CPU",
    "Time of the steps that their thread spent on the backward pass of it.",
    unit="us",
    detail=1,
)
BACKWARD_GPU_US = ColumnSpec(
    "backward_gpu_us",
    "backward GPU",
    "Time in which the GPU ran the backward pass of it and of what it called, likewise.",
    unit="us",
)
BATCH = ColumnSpec(
    "batch", "batch", "Requests of a step, of a prefill tokens; a range of sizes.", width=10, is_key=True
)
BATCH_SIZE = ColumnSpec("batch_size", "median batch", "Median size of these batches.", detail=2)
BATCH_UNIT = ColumnSpec("batch_unit", "of", "What the batch counts: requests or tokens.", width=8)
BEFORE = ColumnSpec(
    "before", "before it", "The activity that ended last before it.", width=14, grow=1, text=TextKind.KERNEL
)
BETWEEN = ColumnSpec(
    "between",
    "CPU between",
    "What the CPU did between the step before and these, the largest shares, by the names of what it ran.",
    width=24,
    grow=1,
    text=TextKind.PROSE,
)
BETWEEN_US = ColumnSpec(
    "between_us",
    "between steps",
    "Median time on the CPU from the end of the step before to the start of the step.",
    unit="us",
    of_servers=True,
)
BLOCK = ColumnSpec("block", "block", "Threads per block in x, y and z.", width=10, text=TextKind.NAME, detail=2)
BLOCKS = ColumnSpec("blocks", "blocks", "How many allocations these are.")
BLOCKS_A = ColumnSpec("blocks_a", "blocks A", "Its allocations in A.")
BLOCKS_B = ColumnSpec("blocks_b", "blocks B", "Its allocations in B.")
BLOCKS_PER_SM = ColumnSpec(
    "blocks_per_sm", "blocks per SM", "Blocks of the grid per multiprocessor or compute unit.", detail=2
)
BOUND = ColumnSpec(
    "bound",
    "bound",
    (
        "compute, memory, L2 (faster than memory: from the cache), latency (too little work), ? (faster than "
        "possible: some assumption is wrong)."
    ),
    width=7,
    detail=1,
)
BOUND_OCCUPANCY_PCT = ColumnSpec(
    "bound_occupancy_pct", "grid occ %", "What the grid can reach of it, on average over all SMs.", unit="%", detail=2
)
BUBBLE_PCT = ColumnSpec(
    "bubble_pct",
    "bubble %",
    "Share of the run in which a stage of a pipeline was idle or waited for a transfer.",
    unit="%",
    detail=2,
)
BUSBW_GBPS = ColumnSpec(
    "busbw_gbps",
    "bus GB/s",
    "Bus bandwidth over the transfer, as nccl-tests counts it; null below 1 MB, where latency decides.",
    unit="GB/s",
)
BUSY_US = ColumnSpec(
    "busy_us",
    "busy",
    "Time in the run in which the device did something other than communicate; without a GPU, operators.",
    unit="us",
)
BYTE = ColumnSpec("byte", "at byte", "Where it stands in the file.")
BYTES = ColumnSpec("bytes", "bytes", "Bytes in all, of those that say how many.", unit="bytes", detail=2)
BYTES_A = ColumnSpec("bytes_a", "bytes A", "Bytes that it holds at the peak of A.", unit="bytes", is_key=True)
BYTES_B = ColumnSpec("bytes_b", "bytes B", "Bytes that it holds at the peak of B.", unit="bytes", is_key=True)
B_BYTES = ColumnSpec(
    "b_bytes", "bytes B", "The same of B; of a fused kernel an estimate from what went into it.", unit="bytes"
)
B_SCATTER = ColumnSpec("b_scatter", "B scatters")
B_US = ColumnSpec("b_us", "B", "GPU time in a part of B.", unit="us")
CACHE = ColumnSpec(
    "cache", "caches", "How often caches of compiled graphs had it, had it not, or were passed by.", detail=1
)
CACHED_TOKENS = ColumnSpec("cached_tokens", "cached", "Tokens of its prompt that were in the cache.", detail=2)
CALLS = ColumnSpec("calls", "calls", "How often it was called.", is_key=True)
CALLS_A = ColumnSpec("calls_a", "calls A", "Calls in the representative part of A.")
CALLS_B = ColumnSpec("calls_b", "calls B", "Calls in that of B.")
CALL_PER_NODE_US = ColumnSpec("call_per_node_us", "call per node", "That time shared among the nodes.", unit="us")
CALL_TIME_US = ColumnSpec(
    "call_time_us", "per call", "GPU time of a call; without a GPU the time of its region on the CPU.", unit="us"
)
CALL_US = ColumnSpec("call_us", "call", "Mean time that the CPU spent in the launch call.", unit="us")
CAME_LAST = ColumnSpec("came_last", "last", "Collectives that it came last to, in which ranks wait for all.", detail=2)
CAPTURED_BY = ColumnSpec(
    "captured_by",
    "captured by",
    "How many nodes are tied to the operator that captured them, and the file that tells; else why none is.",
    width=30,
    grow=2,
    text=TextKind.REMARK,
    detail=1,
)
CATEGORY = ColumnSpec("category", "category", "As recorded.")
CAUSE = ColumnSpec("cause", "cause", "What most of it is put down to.", width=18, grow=1)
CAUSES = ColumnSpec(
    "causes",
    "all causes",
    "All parts of the lateness with their sums over the collectives that the rank came last to.",
    width=18,
    grow=1,
    detail=2,
)
CAUSE_EVENT = ColumnSpec("cause_event", "cause", "The event that caused it.")
CAUSE_NOTE = ColumnSpec(
    "cause_note",
    "what is known of it",
    "What refines the cause: a factor, names, copies.",
    width=24,
    grow=2,
    text=TextKind.REMARK,
)
CHANGE = ColumnSpec("change", "change", "Whether that is more than noise.", width=11)
CHANGES = ColumnSpec("changes", "changes", "Its changes, each with the run that brought it.", width=60, is_key=True)
CHANGE_BYTES = ColumnSpec(
    "change_bytes", "bytes B - A", "Bytes of B less those of A; below 0 B moves fewer.", unit="bytes"
)
CHANGE_PCT = ColumnSpec("change_pct", "change %", "B less A, as a share of A; below 0 B takes less.", unit="%")
CHANGE_US = ColumnSpec("change_us", "B - A", "Time of B less that of A; below 0 B is faster.", unit="us")
CHECK = ColumnSpec("check", "check", "What was looked for.", width=28)
CHECK_US = ColumnSpec("check_us", "check", "Median GPU span of the step that checks the drafts.", unit="us")
CLOCK_DRIFT_PPM = ColumnSpec(
    "clock_drift_ppm",
    "drift ppm",
    "What the clock gains on the reference; null unless it is proven.",
    unit="ppm",
    detail=2,
)
CLOCK_ERROR_US = ColumnSpec(
    "clock_error_us", "clock ±", "By how much the shift may be wrong at most.", unit="us", detail=1
)
CLOCK_SHIFT_US = ColumnSpec(
    "clock_shift_us",
    "clock offset",
    "What the clock of the rank is ahead of the reference, the host of the lowest rank, in the middle of the run.",
    unit="us",
    detail=1,
)
COLLECTIVES = ColumnSpec("collectives", "collectives", "Number of collectives.")
COMM_KERNELS = ColumnSpec("comm_kernels", "comm kernels", "Of the kernels: those that move data between devices.")
COMM_PCT = ColumnSpec("comm_pct", "comm %", "Share of GPU busy time: communication between devices.", unit="%")
COMM_US = ColumnSpec("comm_us", "comm", "Sum of the durations of these.", unit="us")
COMPILATIONS = ColumnSpec(
    "compilations", "compiled", "Compilations of the rank, by its log of torch.compile.", detail=1
)
COMPILE_ID = ColumnSpec(
    "compile_id",
    "compile id",
    "Number of the frame and of its compilation; (2) where the same id came up again after a reset.",
    text=TextKind.NAME,
    is_key=True,
)
COMPILE_US = ColumnSpec("compile_us", "compiled in", "Time of all phases.", unit="us", is_key=True)
COMPILE_WAIT_US = ColumnSpec(
    "compile_wait_us",
    "waited meanwhile",
    "Time that others waited for the rank while it compiled, for longer before the collective than they did.",
    unit="us",
    is_key=True,
)
COMPILING_RANKS = ColumnSpec(
    "compiling_ranks",
    "others too",
    "Other ranks that compiled during more than half of it, or made the same compilation at about the same time.",
)
COMPUTE_MODEL_PCT = ColumnSpec(
    "compute_model_pct",
    "model compute %",
    "The rate of operations that the shapes need, as a share of the peak in the precision of the call.",
    unit="%",
    detail=1,
)
CONTEXT = ColumnSpec("context", "context", "Tokens in the KV cache of the requests of a step, summed.", of_servers=True)
CONTEXT_EACH = ColumnSpec("context_each", "each", "Median of them per request.")
COPIES = ColumnSpec("copies", "copies", "Copies and fills launched in it.")
COPY = ColumnSpec("copy", "copy", "From where to where, as recorded.", width=18, grow=1, text=TextKind.NAME)
CORRELATION = ColumnSpec("correlation", "correlation", "The profiler's id of the launch.", detail=1)
COST_US = ColumnSpec("cost_us", "time", "Time that the evidence speaks of; it need not all be saved.", unit="us")
COUNT = ColumnSpec("count", "count", "How many it touches.")
COUNTER = ColumnSpec(
    "counter", "counter", "Name of the counter, as recorded.", width=24, grow=2, text=TextKind.NAME, is_key=True
)
CPU_ACTIVITY = ColumnSpec(
    "cpu_activity",
    "CPU did",
    "What the CPU did, by the names of what it ran; messages are those of other processes and threads.",
    width=15,
    is_key=True,
)
CPU_A_US = ColumnSpec("cpu_a_us", "CPU A", "CPU time with what it called, in A.", unit="us")
CPU_B_US = ColumnSpec("cpu_b_us", "CPU B", "CPU time with what it called, in B.", unit="us")
CPU_DOING = ColumnSpec(
    "cpu_doing", "CPU was in", "What the launching thread was in, innermost last.", width=18, grow=3, text=TextKind.NAME
)
CPU_LATE_US = ColumnSpec(
    "cpu_late_us", "launch starved", "Of it: until the launch call began, as the CPU was late.", unit="us"
)
CPU_OPS = ColumnSpec("cpu_ops", "ops", "Operators on all threads.")
CPU_TIME_US = ColumnSpec("cpu_step_us", "CPU", "Median time of a step on the CPU.", unit="us")
CPU_TOTAL_US = ColumnSpec(
    "cpu_total_us", "total CPU", "CPU time with what it called; an op inside an op of its name counts twice.", unit="us"
)
CPU_US = ColumnSpec("cpu_us", "total CPU", "Time of its calls on the CPU, with what they called.", unit="us")
CUDAGRAPHS_US = ColumnSpec("cudagraphs_us", "CUDA graphs", "Of it: recording CUDA graphs.", unit="us", detail=2)
CUDAGRAPH_SKIP = ColumnSpec(
    "cudagraph_skip", "no CUDA graph", "Why no CUDA graph is made of it.", text=TextKind.REMARK, detail=2
)
DECODES = ColumnSpec("decodes", "decodes", "Number of decodes of as many requests, with which these are compared.")
DECODE_US = ColumnSpec("decode_us", "decode", "From its first token to its last.", unit="us")
DELAY_US = ColumnSpec(
    "delay_us",
    "launch→start",
    "Latency: from the start of the call to the start on the GPU, waiting in the queue included.",
    unit="us",
)
DEPTH = ColumnSpec("depth", "depth", "How many rows are above it in the tree.", detail=3)
DEVICE = ColumnSpec("device", "device", "Number of the device.", width=7, detail=1)
DEVICE_TOTAL_US = ColumnSpec(
    "device_total_us",
    "total GPU",
    "Time of the GPU work that it and what it called launched; what ran side by side is added.",
    unit="us",
)
DIFFERENCE = ColumnSpec("difference", "B - A", "B less A; below 0 B has less.", detail=3)
DISPATCH_US = ColumnSpec(
    "dispatch_us", "launch latency", "Of the queue delay: the rest, and waiting for other streams.", unit="us"
)
DRAFT_US = ColumnSpec("draft_us", "drafts", "Median of the GPU spans of its drafts together.", unit="us")
DRAM_MODEL_PCT = ColumnSpec(
    "dram_model_pct",
    "model DRAM %",
    "The rate of the least bytes that the shapes need, as a share of the peak of the memory.",
    unit="%",
    detail=1,
)
DRAM_PCT = ColumnSpec(
    "dram_pct",
    "DRAM %",
    "Use of the memory's bandwidth as the GPU's counter measured it while the main kernels ran.",
    unit="%",
)
DUR_US = ColumnSpec("dur_us", "duration", "Duration on the CPU.", unit="us", is_key=True)
DYNAMO_US = ColumnSpec("dynamo_us", "dynamo", "Of it: tracing, guards and bytecode.", unit="us", detail=2)
E2E_US = ColumnSpec("e2e_us", "in all", "From its arrival to its end.", unit="us")
EACH_US = ColumnSpec("each_us", "for each", "Cost of one more of its batch.", unit="us")
EFFECT = ColumnSpec("effect", "effect", "What it does to the numbers.", width=24, grow=3, text=TextKind.PROSE)
EVENT = ColumnSpec("event", "event", "alloc, free, or out of memory.", width=13)
EVERY_US = ColumnSpec("every_us", "every", "Median distance between samples.", unit="us", detail=1)
EVIDENCE = ColumnSpec(
    "evidence", "evidence", "The numbers behind it.", width=24, grow=3, text=TextKind.PROSE, is_key=True
)
EXAMPLE = ColumnSpec("example", "example", "One of them.", width=14, grow=2, text=TextKind.NAME)
EXPECTATION = ColumnSpec("expectation", "expectation", "What is counted or looked for.")
EXPOSED_COMM_US = ColumnSpec(
    "exposed_comm_us",
    "exposed comm",
    "Time in which communication of the step ran and no kernel computed, of this step or another.",
    unit="us",
)
EXPOSED_US = ColumnSpec(
    "exposed_us",
    "GPU idle meanwhile",
    "The part of the CPU time between steps in which no device ran anything; it may lie before the GPU end of a step.",
    unit="us",
    of_servers=True,
)
EXPOSED_WAIT_US = ColumnSpec(
    "exposed_wait_us",
    "exposed wait",
    "The part of the exposed communication that is waiting for other ranks, in proportion to the waits.",
    unit="us",
    detail=1,
)
EXTERNAL_ID = ColumnSpec("external_id", "external id", "As recorded.")
FAILED = ColumnSpec("failed", "failed", "Allocations without memory.")
FAILURE = ColumnSpec(
    "failure", "failed with", "The error with which the compilation ended.", text=TextKind.REMARK, detail=1
)
FAMILY = ColumnSpec("family", "family", "Sort of work, decoded from the name.", width=16, grow=1, detail=1)
FILE = ColumnSpec("file", "file", "The file of the rank.", width=20, grow=1, text=TextKind.NAME, detail=3)
FINGERPRINT = ColumnSpec(
    "fingerprint",
    "fingerprint",
    "Equal for steps that launched the same kernels in the same order.",
    width=12,
    text=TextKind.NAME,
    detail=2,
)
FINISHED_BY = ColumnSpec(
    "finished_by", "ended by", "The reason of its end; null where the file has no end.", width=10, detail=1
)
FIRST_STEP = ColumnSpec("first_step", "first step", "The first step that served it, by its number.", detail=1)
FIRST_TOKEN_US = ColumnSpec(
    "first_token_us", "first token", "From its arrival to its first token.", unit="us", is_key=True
)
FIRST_VALUE = ColumnSpec("first_value", "first", "Median in the first run.", is_number_text=True, is_key=True)
FIXED_US = ColumnSpec("fixed_us", "fixed", "Cost of a step whatever its batch.", unit="us")
FLOPS = ColumnSpec("flops", "operations", "Floating-point operations of a call.", unit="flop", detail=2)
FLOPS_KNOWN_PCT = ColumnSpec(
    "flops_known_pct",
    "FLOPs known %",
    "Share of its GPU time of which the operations and their peak are known; far below 100, MFU is a lower bound.",
    unit="%",
)
FOLDED = ColumnSpec("folded", "folded", "View ops and occupancy queries within it that put nothing on the GPU.")
FOLDED_CHANGE = ColumnSpec(
    "folded_change", "within it", "What of these is gone or new, or called at another rate.", width=12, grow=1
)
FORWARD_CPU_US = ColumnSpec(
    "forward_cpu_us",
    "forward CPU",
    "Time of the steps that their thread spent on it, the backward pass left out.",
    unit="us",
)
FORWARD_GPU_US = ColumnSpec("forward_gpu_us", "forward GPU", "Of the total: launched while it ran.", unit="us")
FOUND = ColumnSpec("found", "found", "A number, a range over the steps, or a name.")
FOUND_BY = ColumnSpec(
    "found_by",
    "found by",
    "profiler step, annotation, function, module or graph; ~ where the end of a step is a guess.",
    width=13,
)
FREE = ColumnSpec("free", "free", "Bytes of it that are free.", unit="bytes", is_key=True)
FREED = ColumnSpec(
    "freed",
    "freed",
    "Bytes that were freed in it, whoever allocated them; what Python lets go of is freed in no op.",
    unit="bytes",
)
FREES = ColumnSpec("frees", "frees", "How often memory was freed.")
FROM_START_US = ColumnSpec(
    "from_start_us",
    "starts after",
    "Median time from the first kernel of its step to its first one.",
    unit="us",
)
FUNCTION = ColumnSpec(
    "function",
    "function",
    "The innermost function of the user's code around the launch, with its file and the line on which it begins.",
    width=18,
    grow=1,
    text=TextKind.NAME,
    detail=2,
)
FUSED_INTO = ColumnSpec("fused_into", "fused into", "The kernel that does its work in B.", width=12, grow=1)
GAPS = ColumnSpec("gaps", "gaps", "How many gaps.")
GAP_BEFORE_US = ColumnSpec("gap_before_us", "gap", "For how long the device ran nothing before it.", unit="us")
GBPS = ColumnSpec("gbps", "GB/s", "All bytes over all time.", unit="GB/s")
GPU = ColumnSpec("gpu", "GPU", "Number of the GPU; empty for a counter of a program.", width=5)
GPU_BUSY_US = ColumnSpec("gpu_busy_us", "GPU busy", "For how long any device ran work of the step.", unit="us")
GPU_END_US = ColumnSpec("gpu_end_us", "GPU end µs", "End of its last GPU activity.", unit="us", is_moment=True)
GPU_IDLE_US = ColumnSpec(
    "gpu_idle_us",
    "GPU idle",
    "Time of its period in which the device ran nothing, of this step or any other; summed over devices.",
    unit="us",
)
GPU_OTHERS_US = ColumnSpec(
    "gpu_others_us",
    "others' work",
    "Time from its first GPU activity to its last in which the device ran only activities of other steps, or of "
    "none; summed over devices.",
    unit="us",
)
GPU_PERIOD_US = ColumnSpec(
    "gpu_period_us",
    "period",
    "Median time from the GPU end of the step before, of the same kind, to its own; without a GPU start to start.",
    unit="us",
    of_servers=True,
)
GPU_SPAN_US = ColumnSpec("gpu_span_us", "GPU span", "From the first start to the last end of that work.", unit="us")
GPU_START_US = ColumnSpec("gpu_start_us", "GPU start µs", "Start of its first GPU activity.", unit="us", is_moment=True)
GPU_US = ColumnSpec(
    "gpu_us",
    "total GPU",
    "Durations of the GPU activities that it and what it called launched; what ran side by side is added.",
    unit="us",
    is_key=True,
)
GPU_WALL_US = ColumnSpec(
    "gpu_wall_us",
    "GPU wall",
    "Time in which something ran on the GPU that was launched inside of it; what ran side by side counts once.",
    unit="us",
)
GRAPH = ColumnSpec("graph", "graph", "The graph of which it is a node.", width=9)
GRAPH_BREAKS = ColumnSpec("graph_breaks", "breaks", "Graph breaks in it.")
GRAPH_MARK = ColumnSpec(
    "graph_mark",
    "marked as",
    "What the program called it when it was captured into a graph.",
    width=14,
    grow=1,
    text=TextKind.NAME,
    detail=1,
)
GRAPH_REPLAYS = ColumnSpec("graph_replays", "graphs", "Graphs that it replayed.")
GRID = ColumnSpec("grid", "grid", "Blocks in x, y and z.", width=12, text=TextKind.NAME, detail=2)
GROUP = ColumnSpec(
    "group", "group", "Process group: its description or name, and its ranks.", width=16, grow=1, text=TextKind.NAME
)
HELP = ColumnSpec("help", "help", "What it is.")
HINT = ColumnSpec("hint", "hint", "What can be done about it.", width=18, grow=2, text=TextKind.PROSE)
HOLDER = ColumnSpec(
    "holder",
    "holder",
    "The line of the program that allocated it, by the memory snapshot beside the trace.",
    width=18,
    grow=1,
    text=TextKind.NAME,
)
HOLDER_STACK = ColumnSpec(
    "holder_stack", "stack", "The lines of the program around that, the innermost first.", text=TextKind.NAME, detail=1
)
HOLDS = ColumnSpec("holds", "holds", "Whether found is as wanted.")
HOST = ColumnSpec(
    "host", "host", "Host of the rank, where a file or its name tells it.", width=12, text=TextKind.NAME, detail=1
)
HOST_WAIT_US = ColumnSpec(
    "host_wait_us", "host wait", "Of it: before work that was launched after the stream ran dry.", unit="us"
)
HOW = ColumnSpec("how", "matched by", "By what both were found to be alike.", width=14, detail=3)
ID = ColumnSpec("id", "id", "Name of the rule.", text=TextKind.NAME)
IDLE_BETWEEN_US = ColumnSpec(
    "idle_between_us",
    "idle between steps",
    "Median time on the GPU from the last activity of the step before to its first in which nothing ran.",
    unit="us",
    of_servers=True,
)
IDLE_PCT = ColumnSpec(
    "idle_pct",
    "period idle %",
    "GPU idle time as a share of its period.",
    unit="%",
)
IDLE_US = ColumnSpec("idle_us", "idle", "Time between them in which the stream ran nothing.", unit="us")
IDLE_WITHIN_US = ColumnSpec(
    "idle_within_us",
    "idle in step",
    "Median time from its first GPU activity to its last in which nothing ran; summed over devices.",
    unit="us",
)
IMBALANCE_PCT = ColumnSpec(
    "imbalance_pct",
    "imbalance %",
    "How much less than the busiest rank the mean rank was busy before a collective, in the median.",
    unit="%",
)
INDEX = ColumnSpec("index", "#", "Index within the step, by start.")
INDUCTOR_US = ColumnSpec("inductor_us", "inductor", "Of it: generating and compiling kernels.", unit="us", detail=2)
INFERRED = ColumnSpec(
    "inferred",
    "inferred",
    "Of the activities: those without launch record, placed by their own start, which is a guess.",
    detail=3,
)
INPUT_SHAPES = ColumnSpec(
    "input_shapes", "shapes", "Sizes of the inputs; [] for scalars and lists.", width=16, grow=1, text=TextKind.NAME
)
INTENSITY = ColumnSpec("intensity", "FLOP/byte", "Operations by bytes.", unit="FLOP/byte")
IN_GENERATION = ColumnSpec("in_generation", "in generation", "Requests in generation beside the prefill.", is_key=True)
IN_LAUNCH_US = ColumnSpec("in_launch_us", "launch API", "Of it: inside the launch call.", unit="us")
IN_THE_WAY = ColumnSpec(
    "in_the_way",
    "in the way",
    "The line of the smallest blocks between its free pieces.",
    width=24,
    grow=2,
    text=TextKind.NAME,
)
JUMP = ColumnSpec("jump", "jump", "A view string: `tracetui open --at` goes to the example.", text=TextKind.NAME)
KERNEL = ColumnSpec(
    "kernel", "kernel", "The activity that started first.", width=16, grow=3, text=TextKind.KERNEL, is_key=True
)
KERNELS = ColumnSpec("kernels", "kernels", "GPU activities that it started; a graph launch has many.")
KERNELS_IN_GRAPHS = ColumnSpec("kernels_in_graphs", "in graphs", "Of the kernels: those that graphs replayed.")
KERNEL_US = ColumnSpec("kernel_us", "kernel time", "Sum of the durations of its kernels.", unit="us")
KERNEL_WAIT_US = ColumnSpec("kernel_wait_us", "kernel wait", unit="us")
KEY = ColumnSpec("key", "fact", "What is said.", width=42)
KIND = ColumnSpec("kind", "kind", "Op, annotation, runtime call or overhead.", width=12, detail=1, of_servers=True)
KIND_FROM = ColumnSpec(
    "kind_from",
    "kind from",
    "What the kind rests on: name, annotation, no GPU activity, shapes, file name, or kernels.",
    of_servers=True,
)
KINETO_OCCUPANCY_PCT = ColumnSpec(
    "kineto_occupancy_pct",
    "est. occ %",
    (
        "The profiler's estimated achieved occupancy. 0 can be an artefact: it prints 0 for every kernel with "
        "more than 48 KiB of shared memory per block, and for tiny grids."
    ),
    unit="%",
    detail=1,
)
LARGEST = ColumnSpec("largest", "largest", "Largest allocation; the row jumps to it.", unit="bytes")
LARGEST_BATCH = ColumnSpec("largest_batch", "largest", "Largest of its batches.")
LARGEST_FREE = ColumnSpec("largest_free", "largest free", "Its largest free piece.", unit="bytes")
LAST = ColumnSpec("last", "at the end", "Allocated after the last event.", unit="bytes")
LAST_STEP = ColumnSpec("last_step", "last step", "The last step that served it, by its number.", detail=1)
LAST_VALUE = ColumnSpec("last_value", "last", "Median in the last run.", is_number_text=True, is_key=True)
LATE_PCT = ColumnSpec(
    "late_pct", "late launches %", "Share of its GPU activities launched when the GPU was idle already.", unit="%"
)
LATE_RANK = ColumnSpec("late_rank", "for rank", "Rank that came last.", is_key=True)
LATE_STEPS = ColumnSpec("late_steps", "late in", "Steps in which others waited for the rank.", width=12, detail=2)
LAUNCHED = ColumnSpec("launched", "launched", "Calls of this name that did launch something.")
LAUNCHES = ColumnSpec("launches", "launches", "How many launches they preceded.")
LAUNCH_DELAY_US = ColumnSpec(
    "launch_delay_us",
    "launch→start",
    (
        "From the start of the launch call to the start on the GPU, waiting in the queue included; of a graph "
        "launch only the first activity has one."
    ),
    unit="us",
)
LAUNCH_START_US = ColumnSpec(
    "launch_start_us", "launch µs", "Start of the call that launched it.", unit="us", detail=1, is_moment=True
)
LAYER = ColumnSpec("layer", "layer", "Number of the layer by position, from 1.", is_key=True)
LAYERS = ColumnSpec("layers", "layers", "Layers of a step: how often the sequence of kernels repeats.")
LEAST = ColumnSpec("least", "least", "Smallest number found in a step.")
LIBRARY = ColumnSpec(
    "library", "library", "Library it is from, decoded from the name; ~ where likely.", width=20, grow=1, detail=1
)
LIFETIME_US = ColumnSpec("lifetime_us", "lived", "Until it was freed; null where no free is recorded.", unit="us")
LIMITER = ColumnSpec(
    "limiter",
    "limiter",
    "What keeps more threads off a multiprocessor; grid where there are fewer blocks than fit.",
    width=12,
    detail=1,
)
LINE = ColumnSpec(
    "line",
    "line",
    "File and line of the user's code that ran; null where lines were not recorded (`tracetui run --lines`).",
    width=18,
    grow=1,
    text=TextKind.NAME,
    detail=2,
)
LINE_NUMBER = ColumnSpec("line_number", "no.", "Number of the line in its file.", is_key=True)
LINK = ColumnSpec("link", "link", "launch, op, annotation, forward or dependency.")
MADE_BY = ColumnSpec(
    "made_by",
    "made by",
    "The innermost op around it, often aten::empty: torch counts it there.",
    width=12,
    grow=1,
    text=TextKind.NAME,
    detail=3,
)
MAP = ColumnSpec("map", "map", "Its memory from start to end: █ used, ▒ in part, · free.", width=24)
MARK = ColumnSpec("mark", "mark", "What became of it.", width=12)
MARKED_STREAM = ColumnSpec(
    "annotated_stream", "marked stream", "The stream that its mark names, where its lane is another.", detail=2
)
MAX = ColumnSpec("max", "max", "Largest value.")
MAX_US = ColumnSpec("max_us", "max", "Longest duration; the row jumps to it.", unit="us", detail=1)
MEAN = ColumnSpec("mean", "mean", "Mean of the values, each weighted by the time it holds.")
MEAN_US = ColumnSpec("mean_us", "mean", "Mean duration.", unit="us")
MEASURE = ColumnSpec(
    "measure", "measure", "What is measured; ends in the unit where it has one.", width=18, grow=1, text=TextKind.NAME
)
MEASURED = ColumnSpec("measured", "measured", "Calls that ran alone and long enough for values of their own.")
MEDIAN_BYTES = ColumnSpec("median_bytes", "median bytes", "Median size.", unit="bytes", detail=3)
MEDIAN_DELAY_US = ColumnSpec(
    "median_delay_us",
    "median launch→start",
    "Median time from the start of the call to the start on the GPU.",
    unit="us",
)
MEDIAN_DISPATCH_US = ColumnSpec("median_dispatch_us", "median launch latency", "Median of the rest.", unit="us")
MEDIAN_GBPS = ColumnSpec("median_gbps", "median GB/s", "Median rate.", unit="GB/s")
MEDIAN_LIFETIME_US = ColumnSpec(
    "median_lifetime_us", "median lived", "Median time until what was allocated was freed.", unit="us"
)
MEDIAN_QUEUE_DELAY_US = ColumnSpec(
    "median_queue_delay_us", "median queue delay", "Median from the end of the call.", unit="us"
)
MEDIAN_US = ColumnSpec("median_us", "median", "Median duration.", unit="us", detail=1)
MERGED = ColumnSpec("merged", "modules", "Modules of one class that share the row.")
METADATA_ONLY = ColumnSpec("metadata_only", "view", "Whether it is known to only make a view.")
METRIC = ColumnSpec("metric", "metric", "How it was looked up.")
MFU_PCT = ColumnSpec(
    "mfu_pct",
    "MFU %",
    "Model FLOPs utilisation: time that its known operations need at dense peaks of their precisions, by its period.",
    unit="%",
)
MIN = ColumnSpec("min", "min", "Smallest value.")
MIN_COMM_US = ColumnSpec(
    "min_comm_us", "min comm", "Shortest time that a step communicated: what is longer waits for others.", unit="us"
)
MIN_TOKEN_US = ColumnSpec(
    "min_token_us",
    "TPOT from",
    "Median period by the tokens checked per request: the time per output token if all of them were accepted.",
    unit="us",
)
MIN_US = ColumnSpec("min_us", "min", "Shortest duration.", unit="us", detail=1)
MISFIT_PCT = ColumnSpec(
    "misfit_pct", "misfit %", "Root mean square of what the times are off the line, of their mean.", unit="%"
)
MISMATCH = ColumnSpec(
    "mismatch",
    "mismatch",
    "What the ranks disagree about: operation, size or type.",
    width=16,
    grow=1,
    text=TextKind.NAME,
)
MODULE = ColumnSpec(
    "module",
    "module",
    "The modules around the launch, outermost first; of a backward kernel those of its forward operator.",
    width=18,
    grow=1,
    text=TextKind.NAME,
    detail=2,
)
MOST = ColumnSpec("most", "most", "Largest number found in a step.")
NAME = ColumnSpec("name", "name", "Name.", width=18, grow=1, text=TextKind.NAME, is_key=True)
NAME_A = ColumnSpec("name_a", "name in A", "Name as recorded in A.", text=TextKind.NAME)
NAME_B = ColumnSpec("name_b", "name in B", "Name as recorded in B.", text=TextKind.NAME)
NODES = ColumnSpec("nodes", "nodes", "GPU activities of one replay.")
NOISE_US = ColumnSpec(
    "noise_us", "noise", "Spread among the parts of one side; the larger of the two.", unit="us", detail=3
)
NORM_PCT = ColumnSpec("norm_pct", "norm %", "Share of GPU busy time: norms.", unit="%")
NOTE = ColumnSpec(
    "note",
    "note",
    "What to do first about a finding, what is odd about a step, what a doubt means.",
    text=TextKind.PROSE,
    width=24,
    grow=1,
)
NUMBER = ColumnSpec("number", "number", "The value where it is a number.")
OCCUPANCY_MARK = ColumnSpec("occupancy_mark", "occ remark", "What to know about the occupancy.", detail=2)
OCCUPANCY_PCT = ColumnSpec(
    "occupancy_pct",
    "occ %",
    (
        "Theoretical occupancy: threads that fit on a multiprocessor, as share of its maximum. Low is normal "
        "for GEMM and attention kernels."
    ),
    unit="%",
    detail=1,
)
OCCUPANCY_QUERIES = ColumnSpec(
    "occupancy_queries", "occ queries", "Calls that ask how many blocks fit on a multiprocessor."
)
ODD = ColumnSpec(
    "odd",
    "odd in time",
    "Layers that take far longer or shorter, by number, with their time by the median of all.",
    width=18,
)
OF = ColumnSpec("of", "of op", "The operator that was counted.")
OFF_MEDIAN = ColumnSpec(
    "off_median",
    "Δ median",
    "The parts of its period that are off the median of its kind.",
    width=24,
    text=TextKind.PROSE,
)
OFFENDER = ColumnSpec("offender", "offender", "How it begins.", width=40, grow=1, text=TextKind.NAME)
OLDER = ColumnSpec("older", "before", "Bytes of it from before the history.", unit="bytes", detail=1)
OLDEST_US = ColumnSpec(
    "oldest_us", "age", "How long the oldest of them has been there, in the history.", unit="us", detail=1
)
OP = ColumnSpec("op", "op", "The operator that asked.", width=12, grow=1, text=TextKind.NAME, is_key=True)
OTHER_US = ColumnSpec(
    "other_us", "other", "Of it: all else, waiting for other streams and unknown launches.", unit="us"
)
OUTPUT_RATE = ColumnSpec(
    "output_tokens_per_s",
    "output tokens/s",
    "Tokens made for requests in generation, per second of the periods of these steps.",
)
OUTPUT_TOKENS = ColumnSpec("output_tokens", "output", "Tokens that were generated for it.")
OVERHEAD_US = ColumnSpec("overhead_us", "per kernel", "Time in the call for each activity that it started.", unit="us")
OWN_CPU_US = ColumnSpec("own_cpu_us", "own CPU", "The same without what they called.", unit="us")
OWN_GPU_US = ColumnSpec("own_gpu_us", "own GPU", "The same without what it called.", unit="us")
OWN_IDLE_US = ColumnSpec("own_idle_us", "own idle", "The same without what it called.", unit="us")
P95_US = ColumnSpec("p95_us", "p95", "Duration that 95 % do not exceed, linear between ranks.", unit="us")
P99_PERIOD_US = ColumnSpec("gpu_period_p99_us", "p99 period", "Period that 99 % do not exceed.", unit="us", detail=1)
P99_US = ColumnSpec("p99_us", "p99", "Duration that 99 % do not exceed, linear between ranks.", unit="us")
PADDED = ColumnSpec("padded", "padded", "Median of the batch to which it was padded, where the name says so.")
PARENT_EVENT = ColumnSpec("parent_event", "parent", "The innermost slice around it.")
PART = ColumnSpec(
    "part",
    "part",
    "head before the first layer, layer, between two series of layers, tail behind the last.",
    width=8,
    is_key=True,
)
PARTIAL = ColumnSpec(
    "partial", "partial", "Whether recording seems to have begun or ended inside the step: leave it out of averages."
)
PATH = ColumnSpec(
    "path", "path", "The names of the rows above it and its own, outermost first.", text=TextKind.NAME, detail=3
)
PAYS_AFTER = ColumnSpec(
    "pays_after",
    "pays after",
    "Calls that take as long as compiling did: it has paid after so many where the eager code took twice as long.",
)
PCT = ColumnSpec("pct", "%", "Share of all gaps.", unit="%")
PCT_OF_STEP_CPU = ColumnSpec(
    "pct_of_step_cpu", "% of step", "Self CPU time within steps, of the duration of the steps.", unit="%"
)
PEAK = ColumnSpec("peak", "peak", "The most that was allocated at once.", unit="bytes")
PEAK_GBPS = ColumnSpec("peak_gbps", "peak GB/s", "What its memory can do.", unit="GB/s", detail=2)
PEAK_OP = ColumnSpec("peak_op", "peak in", "The ops around it.", width=18, grow=1, text=TextKind.NAME)
PEAK_PCT = ColumnSpec("peak_pct", "peak %", "Least possible time by time taken: share of the device's peak.", unit="%")
PEAK_TFLOPS = ColumnSpec(
    "peak_tflops", "peak TFLOP/s", "What the device can do in this precision.", unit="TFLOP/s", detail=2
)
PEAK_US = ColumnSpec(
    "peak_us", "peak µs", "When that was, from the first event of the trace.", unit="us", is_moment=True
)
PERIOD_US = ColumnSpec(
    "period_us",
    "period",
    "From the end of the step before on the GPU to its own; the first one counts from its start.",
    unit="us",
)
PER_CONTEXT_US = ColumnSpec(
    "per_context_us", "per 1k of context", "Median time of attention for 1,000 tokens of context.", unit="us"
)
PER_PROMPT_TOKEN_US = ColumnSpec("per_prompt_token_us", "per prompt token", "Delay by prompt tokens.", unit="us")
PER_REQUEST_US = ColumnSpec("per_request_us", "per request", "Median time of a step by its requests.", unit="us")
PER_RUN = ColumnSpec("per_run", "GPU per run", is_number_text=True)
PER_STEP = ColumnSpec("per_step", "per step", "Calls within a step, on average.")
PER_TOKEN_US = ColumnSpec(
    "per_token_us", "per token in", "Median time of a step by the tokens that went in.", unit="us"
)
PHASE = ColumnSpec(
    "phase",
    "phase",
    "Part of the step in which most of it was: forward, backward, optimizer, input.",
    width=9,
    detail=1,
)
PIECES = ColumnSpec("pieces", "pieces", "Free pieces in it.")
POOL = ColumnSpec("pool", "pool", "Segments of blocks above 1 MiB are large; expandable ones grow.", width=10, detail=1)
PREEMPTED = ColumnSpec("preempted", "preempted", "How often it had to give its memory to other requests.")
PREFILL_DELAY_US = ColumnSpec(
    "prefill_delay_us", "delay", "By how much longer the step is than a decode of as many requests.", unit="us"
)
PREFILL_US = ColumnSpec("prefill_us", "prefill", "From its first step to its first token.", unit="us")
PRODUCTS_PCT = ColumnSpec("products_pct", "GEMM %", "Share of GPU busy time: GEMMs.", unit="%")
PROMPT_TOKENS = ColumnSpec("prompt_tokens", "prompt", "Tokens of its prompt.")
PURPOSE = ColumnSpec(
    "purpose", "purpose", "What it does in a model, decoded from the name: norm, sampling, ...", width=13, detail=1
)
QUANTISE_PCT = ColumnSpec("quantise_pct", "quantise %", "Share of GPU busy time: quantisation.", unit="%")
QUERIES = ColumnSpec("queries", "queries", "How many queries were made.")
QUERIES_PER_LAUNCH = ColumnSpec("queries_per_launch", "queries per launch", "Queries before a launch.")
QUEUE_DELAY_US = ColumnSpec(
    "queue_delay_us", "queue delay", "From the end of the call to the start; 0 if it began before.", unit="us"
)
QUEUE_DEPTH = ColumnSpec("queue_depth", "queue", "Launches made for the device and not yet started.")
QUEUE_US = ColumnSpec("queue_us", "queue", "From its arrival until it was first scheduled.", unit="us")
RANK = ColumnSpec("rank", "rank", "Number of the rank in the run.", is_key=True)
RANKS = ColumnSpec("ranks", "ranks", "Ranks that took part and are here.")
RAN_ON_STREAM = ColumnSpec(
    "original_stream", "ran on", "The stream on which it ran, where its lane is that of its mark.", detail=2
)
RATIO = ColumnSpec("ratio", "B / A", "B by A.", detail=3)
RECOMPILED_FOR = ColumnSpec(
    "recompiled_for",
    "recompiled for",
    "The guards that failed, behind the compilation that they were of.",
    width=24,
    grow=2,
    text=TextKind.REMARK,
)
REGISTERS = ColumnSpec("registers", "registers", "Registers per thread.", detail=2)
REMARK = ColumnSpec("remark", "remark", "Why nothing can be said of the row.", text=TextKind.REMARK, detail=3)
REPLAYS = ColumnSpec("replays", "replays", "How often it was launched.")
REQUEST = ColumnSpec(
    "request", "request", "The id that the server gave it.", width=16, grow=1, text=TextKind.NAME, is_key=True
)
REQUESTS = ColumnSpec("requests", "requests", "Requests that a server's step served.", of_servers=True)
RESERVED = ColumnSpec("reserved", "reserved", "The most that the allocator held of the device.", unit="bytes")
REST_PCT = ColumnSpec("rest_pct", "rest %", "Share of GPU busy time: all other purposes.", unit="%")
RISE = ColumnSpec("rise", "rise", "How much more that was than when recording began.", unit="bytes")
ROOFLINE_US = ColumnSpec("roofline_us", "roofline", "Least time that the work could take.", unit="us", detail=2)
ROUTING_PCT = ColumnSpec("routing_pct", "routing %", "Share of GPU busy time: routing tokens to experts.", unit="%")
RUN = ColumnSpec("run", "run", "Number of the run, from 1.")
RUNS = ColumnSpec("runs", "runs", "How often it ran, on the thread on which it ran most often.")
SAMPLE = ColumnSpec("sample", "sample", "The value of a counter.")
SAMPLES = ColumnSpec("samples", "samples", "Samples that began in the time.")
SAMPLING_PCT = ColumnSpec("sampling_pct", "sampling %", "Share of GPU busy time: sampling.", unit="%")
SELF_CPU_A_US = ColumnSpec("self_cpu_a_us", "self CPU A", "CPU time outside of what it called, in A.", unit="us")
SELF_CPU_B_US = ColumnSpec("self_cpu_b_us", "self CPU B", "CPU time outside of what it called, in B.", unit="us")
SELF_CPU_US = ColumnSpec(
    "self_cpu_us", "self CPU", "CPU time outside of what it called; below 0 where that overlaps.", unit="us"
)
SELF_DEVICE_US = ColumnSpec("self_device_us", "self GPU", "Time of the GPU work that it launched itself.", unit="us")
SELF_US = ColumnSpec("self_us", "self", "Duration less that of its children.", "us")
SEQ = ColumnSpec("seq", "seq", "Sequence number within the group, where it is recorded.", detail=1)
SERIES = ColumnSpec(
    "series", "series", "Number of the series of layers in a step: of forward and backward pass there are two."
)
SERVER_STAGE = ColumnSpec(
    "stage_of_server", "stage", "warm-up, steady or tail.", width=8, text=TextKind.NAME, is_key=True
)
SEVERITY = ColumnSpec(
    "severity", "severity", "major from a tenth of the steps' time on, minor from a fiftieth, note below that.", width=8
)
SHARED_BYTES = ColumnSpec(
    "shared_bytes", "shared memory", "Shared memory per block, static and dynamic.", unit="bytes", detail=2
)
SHARES = ColumnSpec("shares", "shares", "The largest causes with their shares.", width=20, grow=1, text=TextKind.PROSE)
SHARE_PCT = ColumnSpec("share_pct", "%", "Their share of all there are.", unit="%")
SHORT_NAME = ColumnSpec(
    "short_name", "kernel", "What it does, decoded from its name.", width=24, grow=3, text=TextKind.DECODED, is_key=True
)
SIGNATURE = ColumnSpec("signature", "signature", "Its hash.", text=TextKind.NAME)
SINCE_START = ColumnSpec(
    "since_start",
    "since start",
    "Allocated less freed on the device since the recording began.",
    unit="bytes",
    detail=3,
)
SIZE = ColumnSpec("size", "size", "Bytes that were reserved of the device.", unit="bytes", is_key=True)
SIZES = ColumnSpec("sizes", "sizes", "Different batches through whose times the line goes.")
SKEW_US = ColumnSpec("skew_us", "skew", "Last arrival less the first.", unit="us")
SLOWEST_US = ColumnSpec(
    "slowest_us", "longest", "Period of the step on the rank on which it lasted longest.", unit="us"
)
SMALLEST_BATCH = ColumnSpec("smallest_batch", "smallest", "Smallest of its batches.")
SM_ACTIVE_PCT = ColumnSpec(
    "sm_active_pct",
    "SM active %",
    "Time in which multiprocessors had work, as the GPU's counter measured it while the main kernels ran.",
    unit="%",
)
SORT = ColumnSpec("sort", "kind", "value, summary, list, selected or function.")
SOURCE_OF_VALUES = ColumnSpec(
    "source",
    "source",
    "sampled: measured on the GPU; derived: computed by the profiler; program: what the program recorded.",
    width=8,
    detail=1,
)
STACK = ColumnSpec("stack", "stack", "Number of the stack of most of it; the details list it.", detail=2)
STAGE = ColumnSpec("stage", "stage", "Stage of the pipeline that the rank is, from 0.", detail=2)
START_US = ColumnSpec("start_us", "start µs", "Start, from the first event of the trace.", unit="us", is_moment=True)
STEP = ColumnSpec("step", "step", "Number of the step.")
STEPS = ColumnSpec("steps", "steps", "Number of steps.")
STEADY_STEPS = ColumnSpec(
    "steady_steps",
    "steady",
    "Those of its steps in the steady state, which its numbers are over; null: over all steps.",
)
STEPS_BY = ColumnSpec(
    "steps_by",
    "steps by",
    "What can stand for steps, as --steps-by takes it.",
    width=24,
    grow=3,
    text=TextKind.NAME,
    is_key=True,
)
STEP_IDLE_US = ColumnSpec(
    "step_idle_us",
    "idle in steps",
    "Time of the periods of its steps in which the device ran nothing, summed over steps and devices, as in Steps.",
    unit="us",
)
STEP_US = ColumnSpec(
    "step_us",
    "median period",
    "Median period of a step: from the end of the step before on the GPU to its own; without a GPU its CPU time.",
    unit="us",
)
STREAM = ColumnSpec("stream", "stream", "Number of the stream.", detail=1)
STREAM_WAIT_US = ColumnSpec(
    "stream_wait_us", "stream busy", "Of the queue delay: the stream was at earlier work.", unit="us"
)
SYNC_US = ColumnSpec(
    "sync_us", "sync", "Time in calls that wait for the GPU; copies that block are none of them.", unit="us"
)
TAIL_PCT = ColumnSpec("tail_pct", "tail %", "Places of all waves that stay empty in the last one.", unit="%", detail=2)
TENSOR_CORES = ColumnSpec(
    "tensor_cores",
    "TC",
    "Whether it computes on Tensor Cores (AMD: Matrix Cores), by its name; ~ where likely.",
    width=3,
    detail=1,
)
TEXT = ColumnSpec(
    "text", "source", "Text of the line, as it was when it was recorded.", width=30, grow=4, text=TextKind.NAME
)
TFLOPS = ColumnSpec("tflops", "TFLOP/s", "Rate of floating-point operations.", unit="TFLOP/s")
THREAD = ColumnSpec("thread", "thread", "The thread that called.", width=12, text=TextKind.NAME, detail=1)
TIME_PCT = ColumnSpec("time_pct", "of time %", "Share of the time of the trace that its runs cover.", unit="%")
TIME_US = ColumnSpec("time_us", "time", "When it was taken.", "us")
TITLE = ColumnSpec("title", "finding", "What was found.", width=20, grow=1, text=TextKind.PROSE)
TOKENS = ColumnSpec("tokens", "tokens", "Tokens that went into the model.", of_servers=True)
TOKEN_RATE = ColumnSpec("tokens_per_s", "tokens/s", "Tokens that went in, per second of the periods of these steps.")
TOKEN_US = ColumnSpec(
    "token_us",
    "TPOT",
    "Time per output token of a request: median period of decodes that make one for each.",
    unit="us",
)
TOTAL_ALLOCATED = ColumnSpec("total_allocated", "in use", "Allocated on the device after the event.", unit="bytes")
TOTAL_RESERVED = ColumnSpec(
    "total_reserved", "reserved", "Held by the allocator, in use or not.", unit="bytes", detail=3
)
TOTAL_US = ColumnSpec("total_us", "total", "Sum of the gaps.", unit="us", is_key=True)
TOUCHES = ColumnSpec("touches", "touches", "Columns that carry the doubt.", text=TextKind.NAME, detail=3)
TO_MEDIAN = ColumnSpec("to_median", "× median", "Its median time by the median of all layers.")
TRANSFER_US = ColumnSpec(
    "transfer_us",
    "transfer",
    "Time from the last arrival to the first end; null where it holds waits for ranks that are not here.",
    unit="us",
)
TREE = ColumnSpec(
    "tree", "module", "A module or a function, below what called it.", width=24, grow=3, text=TextKind.NAME, is_key=True
)
TREND = ColumnSpec("trend", "runs", "Its medians over the runs, as a line.", width=40, is_key=True)
UNIT = ColumnSpec("unit", "unit", "Unit of the value.")
UNSIZED = ColumnSpec("unsized", "unsized", "Those whose size the trace does not say.", detail=3)
USED = ColumnSpec("used", "used", "Bytes of it that are active.", unit="bytes")
USER_STACK = ColumnSpec(
    "user_stack", "user stack", "The user's stack, the innermost frame last.", text=TextKind.NAME, detail=3
)
US_PER_LAUNCH = ColumnSpec("us_per_launch", "per launch", "Time spent in queries per launch.", unit="us")
VALUE = ColumnSpec("value", "value", "Its value in this trace, as text.", width=20, grow=1, text=TextKind.PROSE)
VARIANT = ColumnSpec("variant", "variant", "Number of the sequence of kernels, the most frequent first.")
VARIANTS = ColumnSpec("variants", "variants", "Different sequences of kernels among these layers.")
VERDICT = ColumnSpec(
    "verdict", "verdict", "What holds the step back.", text=TextKind.PROSE, width=18, grow=1, is_key=True
)
VIEW = ColumnSpec("view", "view", "Name of the view.")
VIEW_OPS = ColumnSpec("view_ops", "views", "Calls of known view ops that put nothing on the GPU.")
WAITING_US = ColumnSpec("waiting_us", "queued", "Of it: launched, and not yet started.", unit="us")
WAIT_BEFORE_US = ColumnSpec(
    "wait_before_us",
    "GPU wait before",
    "For how long the device had run nothing when the first GPU activity of the step began, a part of the idle time "
    "where it lies in the period. Null where nothing ran before it.",
    unit="us",
)
WAIT_CAUSED_US = ColumnSpec(
    "wait_caused_us",
    "made others wait",
    "Time that others waited for the rank in collectives, summed over them.",
    unit="us",
    is_key=True,
)
WAIT_ERROR_US = ColumnSpec(
    "wait_error_us",
    "clock error",
    "Part of the waiting that the error of the clocks may have made up.",
    unit="us",
    detail=1,
)
WAIT_SUFFERED_US = ColumnSpec(
    "wait_suffered_us", "waited", "Time that the rank waited for others in collectives.", unit="us"
)
WAIT_US = ColumnSpec("wait_us", "waiting", "Time that ranks waited, summed over them.", unit="us", is_key=True)
WANTED = ColumnSpec("wanted", "wanted", "A number, a range, or names; … stands for any text.")
WAVES = ColumnSpec("waves", "waves", "Blocks of the grid by those that run at once; below 1 it never fills.", detail=2)
WHAT = ColumnSpec("what", "what", "What the row is about.", width=16)
WHERE = ColumnSpec("where", "where", "File and line.", width=16, grow=1, text=TextKind.NAME, detail=1)
WHY = ColumnSpec("why", "why", "The reason.")
WORST_RANK = ColumnSpec("worst_rank", "worst rank", "The one of them that others waited for most.")

COLUMNS = {spec.name: spec for spec in list(globals().values()) if isinstance(spec, ColumnSpec)}
"""All columns by name."""

KERNEL_NAME = replace(NAME, heading="recorded name", help="Name as recorded.", text=TextKind.KERNEL)
"""The name of a kernel as it is in the file, beside its decoded one."""
OP_NAME = replace(NAME, heading="op", help="Name; all steps are one.")
"""The name of an operator, where a row stands for one."""
RANK_CAUSE = replace(
    CAUSE,
    help="What the rank is late by: input, host, kernels, extra, compile, or the rank that began it; null where it is "
    "not late.",
    width=12,
    grow=0,
)
"""The cause of the lateness of a rank."""
COLLECTIVE_NAME = replace(NAME, heading="collective", help="What the collective is called.")
"""The name of a collective."""
GROUP_SIZE = replace(OF, heading="of", help="Ranks of the group, null where that is not known.")
"""The number of ranks of a process group."""
LAST_RANK = replace(LAST, heading="last", help="Rank that came last; null where all were in step.", unit="")
"""The rank that came last to a collective."""
RANK_MEDIANS = ("step_us", "busy_us", "exposed_comm_us", "exposed_wait_us", "idle_us", "bubble_pct", "wait_suffered_us")
"""Names of the columns of ranks of which a host or a stage has the median."""
