"""Peak rates of models, and the model of a device by name and size."""

from __future__ import annotations

import pytest

from tracetui.devices.peaks import MODELS, Peaks, device_peaks, peaks_named

A_CLOCK = {(7, 0): 1024, (7, 5): 1024, (8, 0): 2048, (8, 6): 1024, (8, 9): 1024, (9, 0): 4096, (12, 0): 1024}
A_CLOCK |= {(6, 0): 256, (10, 0): 8192, (10, 3): 8192, (11, 0): 8192}
"""Operations in fp16 of a multiprocessor in one clock, by compute capability."""
LANES = {(6, 0): 64, (6, 1): 128, (7, 0): 64, (7, 5): 64, (8, 0): 64, (8, 6): 128, (8, 7): 128, (8, 9): 128}
LANES |= {(12, 0): 128}
"""Units for fp32 of a multiprocessor; later data center boards run these at another clock than their Tensor Cores."""
CDNA = {120: 1024, 104: 1024, 110: 1024, 304: 2048, 228: 2048, 256: 4096}
"""Operations in fp16 of a compute unit in one clock, by the number of compute units, which no two generations share."""
HALVED = {"L40", "L20", "A10G"}
"""Boards that accumulate in fp32 at half of the rate of others of their generation, as GeForce does."""


def is_halved(model: Peaks) -> bool:
    geforce = model.title.startswith("RTX ") and model.title.split()[1].isdecimal() and "Ada" not in model.title
    return geforce or model.title in HALVED


def a_clock(model: Peaks) -> float:
    rate = CDNA[model.units] if model.is_amd else A_CLOCK[model.capability]
    return rate / 2 if is_halved(model) else rate


@pytest.mark.parametrize(
    "model", [row for row in MODELS if row.clock and "fp16" in row.rates], ids=lambda row: row.title
)
def test_a_peak_is_units_by_clock_by_operations(model: Peaks) -> None:
    assert model.rates["fp16"] == pytest.approx(model.units * model.clock * a_clock(model) / 1000, rel=0.02)
    for wide, narrow in (("tf32", "fp16"), ("fp16", "fp8")):
        if wide in model.rates and narrow in model.rates:
            assert model.rates[narrow] == pytest.approx(2 * model.rates[wide], rel=0.03)


@pytest.mark.parametrize(
    "model", [row for row in MODELS if row.clock and row.capability in LANES], ids=lambda row: row.title
)
def test_the_rate_of_fp32_is_units_by_clock_by_lanes(model: Peaks) -> None:
    if "fp32" in model.rates:
        assert model.rates["fp32"] == pytest.approx(
            model.units * model.clock * LANES[model.capability] * 2 / 1000, rel=0.02
        )


@pytest.mark.parametrize(
    ("title", "tops"),
    [
        ("RTX 4060", 242),
        ("RTX 4060 Ti", 353),
        ("RTX 4070", 466),
        ("RTX 4070 SUPER", 568),
        ("RTX 4070 Ti", 641),
        ("RTX 4070 Ti SUPER", 706),
        ("RTX 4080", 780),
        ("RTX 4080 SUPER", 836),
        ("RTX 4090", 1321),
        ("RTX 5050", 421),
        ("RTX 5060", 614),
        ("RTX 5060 Ti", 759),
        ("RTX 5070", 988),
        ("RTX 5070 Ti", 1406),
        ("RTX 5080", 1801),
        ("RTX 5090", 3352),
        ("RTX PRO 5000 Blackwell", 2064),
        ("RTX PRO 6000 Blackwell Max-Q", 3511),
        ("RTX PRO 6000 Blackwell Workstation", 4000),
    ],
)
def test_the_narrowest_type_is_half_of_the_advertised_sparse_tops(title: str, tops: float) -> None:
    found = peaks_named(title)
    assert found is not None
    assert 2 * found.rates["fp4" if "fp4" in found.rates else "int8"] == pytest.approx(tops, rel=0.01)


@pytest.mark.parametrize("model", MODELS, ids=lambda row: row.title)
def test_a_model_is_complete_and_found_by_its_own_title(model: Peaks) -> None:
    assert set(model.rates) <= {"fp32", "tf32", "fp16", "fp8", "int8", "fp4"}
    assert model.source and model.memory and model.units
    assert all(rate > 0 for rate in model.rates.values())
    assert device_peaks(model.title, {"numSms": model.units}) is model
    if not model.title.startswith("MI250"):
        assert peaks_named(model.title) is model


def test_titles_are_distinct() -> None:
    assert len({model.title for model in MODELS}) == len(MODELS)


@pytest.mark.parametrize(
    ("name", "properties", "title"),
    [
        ("NVIDIA H100 80GB HBM3", {}, "H100 SXM"),
        ("NVIDIA H100 PCIe", {}, "H100 PCIe"),
        ("NVIDIA H100 NVL", {}, "H100 NVL"),
        ("NVIDIA H200", {"totalGlobalMem": 150_121_545_728}, "H200 SXM"),
        ("NVIDIA H200 NVL", {}, "H200 NVL"),
        ("NVIDIA H800", {}, "H100 SXM"),
        ("NVIDIA H800 PCIe", {}, "H100 PCIe"),
        ("NVIDIA GH200 480GB", {}, "GH200 96GB"),
        ("NVIDIA GH200 120GB", {"totalGlobalMem": 101_468_602_368}, "GH200 96GB"),
        ("NVIDIA GH200 144G HBM3e", {"totalGlobalMem": 150_121_545_728}, "GH200"),
        ("NVIDIA GB200", {"numSms": 152}, "GB200"),
        ("NVIDIA GB10", {"numSms": 48, "computeMajor": 12, "computeMinor": 1}, "GB10"),
        ("NVIDIA Thor", {"numSms": 20, "computeMajor": 11, "computeMinor": 0}, "Jetson Thor"),
        ("Orin", {"numSms": 16, "computeMajor": 8, "computeMinor": 7}, "Jetson AGX Orin"),
        ("NVIDIA A100-SXM4-40GB", {"totalGlobalMem": 42_505_273_344}, "A100-SXM4-40GB"),
        ("NVIDIA A100-PCIE-40GB", {"totalGlobalMem": 42_505_273_344}, "A100-SXM4-40GB"),
        ("NVIDIA A100-SXM4-80GB", {"totalGlobalMem": 85_174_583_296}, "A100-SXM4-80GB"),
        ("NVIDIA A100 80GB PCIe", {"totalGlobalMem": 85_174_583_296}, "A100 80GB PCIe"),
        ("NVIDIA A800 80GB PCIe", {}, "A100 80GB PCIe"),
        ("NVIDIA A800-SXM4-80GB", {}, "A100-SXM4-80GB"),
        ("NVIDIA A100-PG509-200", {"totalGlobalMem": 42_505_273_344}, "A100-SXM4-40GB"),
        ("NVIDIA PG509-210", {"totalGlobalMem": 85_049_933_824, "numSms": 108}, "A100-SXM4-80GB"),
        ("NVIDIA A30", {}, "A30"),
        ("NVIDIA A10", {}, "A10"),
        ("NVIDIA A10G", {}, "A10G"),
        ("NVIDIA A2", {}, "A2"),
        ("NVIDIA A16", {}, "A16, one GPU"),
        ("NVIDIA A40", {}, "A40"),
        ("NVIDIA L4", {"totalGlobalMem": 23_669_768_192}, "L4"),
        ("NVIDIA L40", {}, "L40"),
        ("NVIDIA L40S", {"totalGlobalMem": 47_697_362_944}, "L40S"),
        ("Tesla V100-PCIE-16GB", {}, "V100-PCIE"),
        ("Tesla V100-DGXS-32GB", {}, "V100-SXM2"),
        ("Tesla V100-SXM3-32GB", {}, "V100-SXM2"),
        ("Tesla P100-PCIE-16GB", {}, "P100-PCIE"),
        ("Tesla P100-PCIE-12GB", {}, "P100-PCIE-12GB"),
        ("Tesla P100-SXM2-16GB", {}, "P100-SXM2"),
        ("Tesla P40", {}, "P40"),
        ("Tesla T4", {"totalGlobalMem": 15_642_329_088, "numSms": 40}, "T4"),
        ("NVIDIA TITAN V", {}, "TITAN V"),
        ("NVIDIA TITAN RTX", {}, "TITAN RTX"),
        ("Quadro RTX 6000", {}, "Quadro RTX 6000"),
        ("GeForce RTX 2080 Ti", {"totalGlobalMem": 11_554_717_696}, "RTX 2080 Ti"),
        ("NVIDIA GeForce RTX 2080", {}, "RTX 2080"),
        ("NVIDIA GeForce RTX 2080 SUPER", {}, "RTX 2080 SUPER"),
        ("NVIDIA GeForce RTX 2060", {"numSms": 30}, "RTX 2060"),
        ("NVIDIA GeForce RTX 2060", {"numSms": 34}, "RTX 2060 12GB"),
        ("NVIDIA GeForce RTX 3060", {"totalGlobalMem": 12_622_168_064}, "RTX 3060"),
        ("NVIDIA GeForce RTX 3060", {"totalGlobalMem": 8_589_410_304}, "RTX 3060 8GB"),
        ("NVIDIA GeForce RTX 3060 Ti", {}, "RTX 3060 Ti"),
        ("NVIDIA GeForce RTX 3070 Ti", {}, "RTX 3070 Ti"),
        ("NVIDIA GeForce RTX 3080", {"numSms": 68, "totalGlobalMem": 10_499_457_024}, "RTX 3080"),
        ("NVIDIA GeForce RTX 3080", {"numSms": 70, "totalGlobalMem": 12_621_381_632}, "RTX 3080 12GB"),
        ("NVIDIA GeForce RTX 3080 Ti", {}, "RTX 3080 Ti"),
        ("NVIDIA GeForce RTX 3090", {"totalGlobalMem": 25_335_037_952}, "RTX 3090"),
        ("NVIDIA GeForce RTX 3090 Ti", {}, "RTX 3090 Ti"),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", {}, "RTX 4070 Ti SUPER"),
        ("NVIDIA GeForce RTX 4070 Ti", {}, "RTX 4070 Ti"),
        ("NVIDIA GeForce RTX 4080 SUPER", {}, "RTX 4080 SUPER"),
        ("NVIDIA GeForce RTX 4090", {}, "RTX 4090"),
        ("NVIDIA GeForce RTX 4090 D", {}, "RTX 4090 D"),
        ("NVIDIA GeForce RTX 5070 Ti", {}, "RTX 5070 Ti"),
        ("NVIDIA GeForce RTX 5090", {}, "RTX 5090"),
        ("NVIDIA RTX A6000", {}, "RTX A6000"),
        ("NVIDIA RTX A5000", {}, "RTX A5000"),
        ("NVIDIA RTX 6000 Ada Generation", {"totalGlobalMem": 51_033_931_776}, "RTX 6000 Ada"),
        ("NVIDIA RTX 4000 SFF Ada Generation", {}, "RTX 4000 SFF Ada"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", {}, "RTX PRO 6000 Blackwell Workstation"),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", {}, "RTX PRO 6000 Blackwell Max-Q"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", {"numSms": 188}, "RTX PRO 6000 Blackwell Server"),
        ("NVIDIA B300 SXM6 AC", {"totalGlobalMem": 287_431_131_136, "numSms": 148}, "B300"),
        ("NVIDIA B200", {"totalGlobalMem": 191_503_007_744, "numSms": 148}, "B200"),
        ("AMD Instinct MI100", {}, "MI100"),
        ("AMD Instinct MI300X VF", {"numSms": 304}, "MI300X"),
        ("AMD Instinct MI250X / MI250", {"numSms": 104}, "MI250, one die"),
        ("AMD Instinct MI250X / MI250", {"numSms": 110}, "MI250X, one die"),
        # Others than those of the table, slices of them, or not to be told apart.
        ("NVIDIA GeForce RTX 4090 Laptop GPU", {}, None),
        ("NVIDIA GeForce RTX 2080 SUPER with Max-Q Design", {}, None),
        ("NVIDIA GeForce RTX 5090 D", {}, None),
        ("NVIDIA RTX 5000 Ada Generation Laptop GPU", {}, None),
        ("NVIDIA RTX A5000 Laptop GPU", {}, None),
        ("NVIDIA RTX 6000", {}, None),
        ("Quadro RTX 6000 with Max-Q Design", {}, None),
        ("Tesla V100-FHHL-16GB", {}, None),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", {}, None),
        ("NVIDIA A100-SXM4-40GB", {"numSms": 14}, None),
        ("NVIDIA A100-SXM-64GB", {"numSms": 124, "totalGlobalMem": 68_000_000_000}, None),
        ("AMD Instinct MI300X", {"numSms": 38}, None),
        ("NVIDIA A1000", {}, None),
        ("NVIDIA A100X", {}, None),
        ("Quadro GP100", {}, None),
        ("NVIDIA T400", {}, None),
    ],
)
def test_a_device_is_found_by_its_name(name: str, properties: dict[str, int], title: str | None) -> None:
    found = device_peaks(name, properties)
    assert (found and found.title) == title


A100_80 = {"computeMajor": 8, "computeMinor": 0, "numSms": 108, "totalGlobalMem": 85_049_933_824}
MI300X = {"computeMajor": 9, "computeMinor": 4, "numSms": 304, "warpSize": 64, "totalGlobalMem": 206_141_652_992}


@pytest.mark.parametrize(
    ("name", "properties", "title"),
    [
        ("", {"computeMajor": 9, "computeMinor": 0, "numSms": 114}, "H100 PCIe"),
        ("NVIDIA Graphics Device", A100_80, "A100-SXM4-80GB or A100 80GB PCIe"),
        ("NVIDIA PG506-230", A100_80, "A100-SXM4-80GB or A100 80GB PCIe"),
        ("", MI300X, "MI300X"),
        ("", MI300X | {"totalGlobalMem": 274_877_906_944}, "MI325X"),
        (
            "",
            {"computeMajor": 7, "computeMinor": 5, "numSms": 72, "totalGlobalMem": 25_396_838_400},
            "TITAN RTX or Quadro RTX 6000",
        ),
        # Boards of one size whose peaks differ, or of an unknown size, are not told apart.
        ("", {"computeMajor": 8, "computeMinor": 0, "numSms": 108}, None),
        ("", {"computeMajor": 8, "computeMinor": 6, "numSms": 84, "totalGlobalMem": 48_000_000_000}, None),
        ("", A100_80 | {"numSms": 42}, None),
        ("", MI300X | {"warpSize": 32}, None),
        ("NVIDIA Quantum", A100_80, None),
        ("", {}, None),
    ],
)
def test_a_board_without_a_model_name_is_found_by_its_size(
    name: str, properties: dict[str, int], title: str | None
) -> None:
    found = device_peaks(name, properties)
    assert (found and found.title) == title


def test_of_boards_that_are_nearly_the_same_the_larger_peaks_are_taken() -> None:
    found = device_peaks("Graphics Device", A100_80)
    assert found is not None
    assert (found.rates["fp16"], found.bandwidth, found.cache) == (312, 2039, 40)


def test_a_name_is_taken_from_the_user_too() -> None:
    words = ["h100", "rtx 4090", "RTX PRO 6000", "A6000", " ", "H1", "rtx 4090 super", "titan"]
    assert [bool(peaks_named(name)) for name in words] == [True, True, True, True, False, False, False, False]
