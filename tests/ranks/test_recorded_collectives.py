"""What is recorded of one collective, record by record: operation, size, group, partner, root and sequence."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.build import Event, annotation, kernel, launch, make_trace, op
from tracetui.model.recorded import MAX_RANKS, GroupRecord, RankHeader
from tracetui.model.table import NULL
from tracetui.model.trace import Kind
from tracetui.ranks.communication import Communication, communication
from tracetui.ranks.rank_summary import OPERATIONS, CommGroup

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
GENERIC = "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)"


def header(*groups: GroupRecord, world: int | None = 4) -> RankHeader:
    return RankHeader("rank0.json", 1, rank=0, world_size=world, groups=groups)


def of_kernels(*records: dict[str, Any], name: str = NCCL, head: RankHeader | None = None) -> Communication:
    """One kernel for each record, 100 ns apart."""
    events = [kernel(name, 100 * index, 50, args=args) for index, args in enumerate(records)]
    return communication(make_trace(events), head or header())


def operations(found: Communication) -> list[str]:
    return [OPERATIONS[index] for index in found.operation.tolist()]


def groups(found: Communication) -> list[CommGroup]:
    return [found.groups[index] for index in found.group.tolist()]


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("allreduce", "all_reduce"),
        ("_all_gather_base", "all_gather"),
        ("allgather_into_tensor_coalesced", "all_gather"),
        ("_reduce_scatter_base", "reduce_scatter"),
        ("all_to_allv", "all_to_all"),
        ("alltoall_base", "all_to_all"),
        ("broadcast", "broadcast"),
        ("nccl:reduce", "reduce"),
        ("_reduce_oop", "reduce"),
        ("gather", "gather"),
        ("scatter", "scatter"),
        ("barrier", "barrier"),
        ("send", "send"),
        ("nccl:recv 0<-1", "recv"),
        ("recv_any_source", "recv"),
    ],
)
def test_operations_go_by_the_recorded_name(name: str, operation: str) -> None:
    assert operations(of_kernels({"Collective name": name}, name=GENERIC)) == [operation]


@pytest.mark.parametrize(
    ("name", "operation", "is_guess"),
    [
        (NCCL, "all_reduce", False),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", "reduce_scatter", False),
        ("ncclDevKernel_SendRecv", "send_recv", False),
        ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(vllm::RankData*)", "all_reduce", True),
    ],
)
def test_without_a_record_the_name_of_the_kernel_tells(name: str, operation: str, is_guess: bool) -> None:
    found = of_kernels({}, name=name)
    assert (operations(found), found.is_guess.tolist(), found.names) == ([operation], [is_guess], [name])
    assert found.tokens == [operation]
    recorded = of_kernels({"Collective name": "allreduce"}, name=name)
    assert (operations(recorded), recorded.is_guess.tolist()) == (["all_reduce"], [False])


@pytest.mark.parametrize(
    ("record", "size", "received", "token"),
    [
        (
            {"Collective name": "allreduce", "In msg nelems": 1000, "dtype": "Float"},
            4000,
            NULL,
            "all_reduce 1,000 Float",
        ),
        ({"Collective name": "allreduce", "In msg nelems": 1000, "dtype": "BFloat16"}, 2000, NULL, None),
        ({"Collective name": "allreduce", "In msg nelems": 1000, "dtype": "Byte"}, 1000, NULL, None),
        ({"Collective name": "allreduce", "In msg nelems": 10, "dtype": "Complex Float"}, 80, NULL, None),
        ({"Collective name": "allreduce", "In msg nelems": 10, "dtype": "Unknown"}, NULL, NULL, None),
        ({"Collective name": "allreduce", "dtype": "Float"}, NULL, NULL, "all_reduce"),
        ({"Collective name": "allreduce", "In msg nelems": 0, "dtype": "Float"}, 0, NULL, "all_reduce 0 Float"),
        # Of an all-gather the whole result counts, and the sizes of ranks may differ.
        (
            {"Collective name": "all_gather", "In msg nelems": 10, "Out msg nelems": 40, "dtype": "Int"},
            160,
            NULL,
            "all_gather Int",
        ),
        ({"Collective name": "all_gather", "In msg nelems": 10, "Group size": 8, "dtype": "Int"}, 320, NULL, None),
        ({"Collective name": "all_gather", "In msg nelems": 10, "Group size": 0, "dtype": "Int"}, 160, NULL, None),
        ({"Collective name": "all_gather", "In msg nelems": 10, "Out msg nelems": 0, "dtype": "Int"}, NULL, NULL, None),
        (
            {"Collective name": "alltoall", "In msg nelems": 10, "Out msg nelems": 30, "dtype": "Half"},
            20,
            30,
            "all_to_all Half",
        ),
        ({"Collective name": "alltoall", "In msg nelems": 10, "dtype": "Half"}, 20, NULL, None),
    ],
)
def test_bytes_are_elements_by_the_size_of_their_type(
    record: dict[str, Any], size: int, received: int, token: str | None
) -> None:
    found = of_kernels(record)
    assert (found.bytes.tolist(), found.received.tolist()) == ([size], [received])
    assert token is None or found.tokens == [token]


@pytest.mark.parametrize(
    ("dims", "types", "size"),
    [
        ([[2, 3], [4]], ["float", ""], 24),
        ([[[2, 3], [4]], []], ["", "double"], 48),
        ([[]], ["int"], 4),
        ([[2, 3]], [5, "half"], 12),
        ([], ["int"], NULL),
        ("[2, 3]", ["int"], NULL),
        ([["2", 3]], ["int"], NULL),
        ([[2, 3]], [], NULL),
        ([[2, 3]], "float", NULL),
    ],
)
def test_shapes_of_the_operator_tell_the_elements_where_no_number_is_recorded(
    dims: object, types: object, size: int
) -> None:
    record = {"Collective name": "allreduce", "Input Dims": dims, "Input type": types}
    assert of_kernels(record).bytes.tolist() == [size]
    # A number that is recorded comes first, with its own type.
    assert of_kernels(record | {"In msg nelems": 5, "dtype": "Half"}).bytes.tolist() == [10]


@pytest.mark.parametrize(
    ("record", "partner"),
    [
        ({"Collective name": "send", "Dst Rank": 3, "Src Rank": 0}, 3),
        ({"Collective name": "recv", "Dst Rank": 0, "Src Rank": 2}, 2),
        ({"Collective name": "send", "Dst Rank": 0}, 0),
        ({"Collective name": "send", "Dst Rank": -1}, -1),
        ({"Collective name": "send", "Dst Rank": -2}, -1),
        ({"Collective name": "send"}, -1),
        ({"Collective name": "allreduce", "Dst Rank": 3, "Src Rank": 3}, -1),
    ],
)
def test_the_other_side_of_a_transfer(record: dict[str, Any], partner: int) -> None:
    assert of_kernels(record).peer.tolist() == [partner]


def test_sequence_numbers_are_recorded_or_the_second_input() -> None:
    inputs = {"Concrete Inputs": ["", "17", "1", "3"]}
    records: list[dict[str, Any]] = [
        {"Seq": 5},
        inputs,
        inputs | {"Seq": 6},
        {},
        {"Concrete Inputs": ["17"]},
        {"Concrete Inputs": ["", "x"]},
    ]
    assert of_kernels(*records).seq.tolist() == [5, 17, 6, NULL, NULL, NULL]
    assert of_kernels({"Seq": 1 << 61}, {"Seq": (1 << 62) + 1}).seq.tolist() == [1 << 61, NULL]
    longest = ["", "9" * 17]
    assert of_kernels({"Concrete Inputs": longest}).seq.tolist() == [int("9" * 17)]
    assert of_kernels({"Concrete Inputs": ["", "9" * 18]}).seq.tolist() == [NULL]
    assert of_kernels({"Concrete Inputs": ["", "0"]}, {"Seq": 0}).seq.tolist() == [0, 0]


def test_ids_of_communications_are_signed() -> None:
    given = [1, 0, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, -5, True, "7"]
    found = of_kernels(*({"Comms Id": each} for each in given))
    assert found.comms_id.tolist() == [1, NULL, (1 << 63) - 1, -(1 << 63), -1, -5, NULL, NULL]


def test_what_was_recorded_at_capture_numbers_no_replay() -> None:
    record = {"Collective name": "allreduce", "Seq": 5, "Comms Id": 9, "In msg nelems": 10, "dtype": "Float"}
    events = [
        launch(10, 5, 1),
        kernel(NCCL, 100, 50, correlation=1, args=record),
        launch(20, 5, 2, "cudaGraphLaunch"),
        kernel(NCCL, 200, 50, correlation=2, args=record),
        kernel(NCCL, 300, 50, args=record | {"graph node id": 3}),
        kernel(NCCL, 400, 50, args=record | {"graph node id": 0}),
        kernel(NCCL, 500, 50, args=record | {"graph node id": 1}),
    ]
    found = communication(make_trace(events), header())
    assert found.in_graph.tolist() == [False, True, True, False, True]
    assert found.seq.tolist() == [5, NULL, NULL, 5, NULL]
    assert found.comms_id.tolist() == [9, NULL, NULL, 9, NULL]
    assert found.bytes.tolist() == [40] * 5


def rooted(operation: str, **args: Any) -> list[int]:
    """The root of a collective whose operator has these arguments."""
    events = [
        op("record_param_comms", 0, 100, args=args),
        launch(10, 5, 1),
        kernel(GENERIC, 200, 50, correlation=1, args={"Collective name": operation}),
        kernel(GENERIC, 300, 50, args={"Collective name": operation, "Rank": 3}),
    ]
    return communication(make_trace(events), header()).root.tolist()


@pytest.mark.parametrize("operation", ["broadcast", "scatter", "reduce", "gather"])
def test_the_root_is_the_rank_of_the_operator(operation: str) -> None:
    assert rooted(operation, Rank=2) == [2, -1]
    assert rooted(operation, **{"Concrete Inputs": ["", "17", "1", "3", "4"]}) == [3, -1]
    assert rooted(operation) == [-1, -1]
    assert rooted("allreduce", Rank=2) == [-1, -1]


def test_what_a_kernel_does_not_say_is_taken_from_the_annotation_and_the_operator() -> None:
    noted = {"Collective name": "allreduce", "In msg nelems": 10, "dtype": "Float"}
    events = [
        op("record_param_comms", 0, 100, args={"Collective name": "barrier", "Seq": 4, "Group size": 8}),
        annotation("nccl:all_reduce", 5, 50, args=noted),
        launch(10, 5, 1),
        kernel(GENERIC, 200, 50, correlation=1, args={"In msg nelems": 3}),
        launch(60, 5, 2),
        kernel(GENERIC, 300, 50, correlation=2),
        launch(70, 5, 3),
        kernel(GENERIC, 400, 50, correlation=3, args={"Collective name": "broadcast", "dtype": "Int"}),
    ]
    found = communication(make_trace(events), header())
    assert operations(found) == ["all_reduce", "barrier", "broadcast"]
    # The annotation told what it is, so that the operator is not asked.
    assert (found.bytes.tolist(), found.seq.tolist()) == ([12, NULL, NULL], [NULL, 4, NULL])
    assert found.names == ["nccl:all_reduce", "barrier", "broadcast"]


def test_an_annotation_that_names_no_collective_is_no_name() -> None:
    events = [
        annotation("forward", 0, 100),
        launch(10, 5, 1),
        kernel(GENERIC, 200, 50, correlation=1, args={"Collective name": "wait"}),
        annotation("nccl:broadcast", 110, 100),
        launch(120, 5, 2),
        kernel(GENERIC, 300, 50, correlation=2, args={"Collective name": "wait"}),
    ]
    found = communication(make_trace(events), header())
    assert (operations(found), found.names) == (["collective", "broadcast"], ["wait", "nccl:broadcast"])


def test_a_kernel_without_a_launch_has_no_annotation() -> None:
    behind = Event("nccl:broadcast", 300, 50, Kind.GPU_ANNOTATION, ("0", "stream 99"))
    events = [launch(10, 5, 1), kernel(GENERIC, 100, 50, args={"Collective name": "allreduce"}), behind]
    found = communication(make_trace(events), header())
    assert (operations(found), found.names) == (["all_reduce"], ["allreduce"])


def test_without_kernels_annotations_of_gloo_are_collectives_by_start() -> None:
    noted = {"Collective name": "allreduce", "Seq": 2}
    names = ["gloo:all_reduce", "mpi:broadcast", "nccl:all_reduce", "forward"]
    events = [annotation(name, 300 - 100 * index, 50, args=noted) for index, name in enumerate(names)]
    found = communication(make_trace(events), header())
    assert (found.is_gpu, found.names) == (False, ["mpi:broadcast", "gloo:all_reduce"])
    assert (found.is_guess.tolist(), found.in_graph.tolist(), found.seq.tolist()) == ([False] * 2, [False] * 2, [2, 2])
    with_kernel = communication(make_trace([*events, kernel(NCCL, 1_000, 10)]), header())
    assert (with_kernel.is_gpu, len(with_kernel.rows)) == (True, 1)
    none = communication(make_trace([kernel("gemm", 0, 10)]), header())
    assert (len(none.rows), len(none.groups), len(none.operation)) == (0, 0, 0)


def test_collectives_of_several_streams_are_in_order_of_start() -> None:
    events = [Event(NCCL, start, 10, Kind.KERNEL, ("0", lane), args={"Seq": start}) for lane, start in (
        ("stream 7", 300), ("stream 8", 100), ("stream 7", 200),
    )]  # fmt: skip
    assert communication(make_trace(events), header()).seq.tolist() == [100, 200, 300]


LISTED, OTHER = GroupRecord("7", "tensor", 2, (1, 3)), GroupRecord("9", "", 2, (0, 1))


@pytest.mark.parametrize(
    ("record", "group"),
    [
        ({"Process Group Name": "7", "Process Group Ranks": "[0, 2]"}, CommGroup("7", (0, 2), 2, "tensor")),
        ({"Process Group Name": "7"}, CommGroup("7", (1, 3), 2, "tensor")),
        ({"Process Group Name": 7, "Process Group Description": "own"}, CommGroup("7", (1, 3), 2, "own")),
        ({"Process Group Name": "8", "Group size": 4}, CommGroup("8", (0, 1, 2, 3), 4)),
        ({"Process Group Name": "8", "Group size": 3}, CommGroup("8", (), 3)),
        ({"Process Group Name": "8"}, CommGroup("8", (), 0)),
        (
            {"Process Group Name": "8", "Group size": 3, "Process Group Ranks": "[2, 5, ...]"},
            CommGroup("8", (), 3, first_member=2),
        ),
        # What is listed of a long group, in steps of the same length.
        (
            {"Process Group Name": "8", "Group size": 3, "Global rank start": 1, "Global rank stride": 2},
            CommGroup("8", (1, 3, 5), 3),
        ),
        (
            {
                "Process Group Name": "8",
                "Group size": 3,
                "Global rank start": 1,
                "Global rank stride": 2,
                "Process Group Ranks": "[1, 3, ...]",
            },
            CommGroup("8", (1, 3, 5), 3),
        ),
        (
            {
                "Process Group Name": "8",
                "Group size": 3,
                "Global rank start": 1,
                "Global rank stride": 2,
                "Process Group Ranks": "[1, 4, ...]",
            },
            CommGroup("8", (), 3, first_member=1),
        ),
        (
            {"Process Group Name": "8", "Group size": 3, "Global rank start": 5},
            CommGroup("8", (), 3, first_member=5),
        ),
        (
            {"Process Group Name": "8", "Group size": 3, "Global rank start": 0, "Global rank stride": 1},
            CommGroup("8", (0, 1, 2), 3),
        ),
        (
            {"Process Group Name": "8", "Group size": 3, "Global rank start": 2, "Global rank stride": 0},
            CommGroup("8", (), 3, first_member=2),
        ),
        (
            {"Process Group Name": "8", "Group size": 3, "Global rank start": -1, "Global rank stride": 1},
            CommGroup("8", (), 3, first_member=-1),
        ),
        (
            {"Process Group Name": "8", "Group size": MAX_RANKS + 1, "Global rank start": 0, "Global rank stride": 1},
            CommGroup("8", (), MAX_RANKS + 1, first_member=0),
        ),
        ({"Process Group Name": "8", "Process Group Ranks": "{0, 2}"}, CommGroup("8", (), 0, first_member=0)),
        ({"Process Group Name": "8", "Process Group Ranks": "[3, x]"}, CommGroup("8", (), 0, first_member=3)),
    ],
)
def test_the_members_of_a_group(record: dict[str, Any], group: CommGroup) -> None:
    found = of_kernels({"Collective name": "allreduce"} | record, head=header(LISTED, OTHER))
    assert groups(found) == [group]


@pytest.mark.parametrize(
    ("head", "size", "group"),
    [
        (header(LISTED), None, CommGroup("7", (1, 3), 2, "tensor")),
        (header(LISTED, OTHER), None, CommGroup("", (), 0, is_guess=True)),
        (header(LISTED, OTHER), 4, CommGroup("", (0, 1, 2, 3), 4, is_guess=True)),
        (header(), None, CommGroup("", (0, 1, 2, 3), 4, is_guess=True)),
        (header(), 2, CommGroup("", (), 2, is_guess=True)),
        (header(world=None), None, CommGroup("", (), 0, is_guess=True)),
    ],
)
def test_a_collective_that_names_no_group(head: RankHeader, size: int | None, group: CommGroup) -> None:
    record = {} if size is None else {"Group size": size}
    for name in ({}, {"Process Group Name": ""}, {"Process Group Name": [1]}):
        assert groups(of_kernels({"Collective name": "allreduce"} | record | name, head=head)) == [group]


def test_collectives_of_one_group_share_it() -> None:
    names = ["a", "b", "a", "b", "c"]
    found = of_kernels(*({"Process Group Name": name, "Group size": 2} for name in names))
    assert found.group.tolist() == [0, 1, 0, 1, 2]
    assert [group.name for group in found.groups] == ["a", "b", "c"]


PAIRS = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


@pytest.mark.parametrize(
    ("others", "operation"), [(["alltoall"] * 3, "all_to_all"), (["alltoall", "send"], "send_recv"), ([], "send_recv")]
)
def test_a_kernel_without_a_record_does_what_all_others_of_its_stream_do(others: list[str], operation: str) -> None:
    events = [kernel(PAIRS, 0, 10), kernel(PAIRS, 5, 10, stream="stream 9")]
    for number, name in enumerate(others, 1):
        record = {"Collective name": name, "Process Group Name": "3", "dtype": "Half", "Seq": number}
        events.append(kernel(PAIRS, 100 * number, 10, args=record))
    found = communication(make_trace(events), header())
    assert operations(found)[:2] == [operation, "send_recv"]
    assert found.is_guess.tolist() == [operation == "all_to_all", *[False] * (1 + len(others))]
    assert operation != "all_to_all" or (found.group[0] == found.group[2] and found.bytes[0] == NULL)
