"""Positions against their papers."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from addnorm.layers.positions import ALiBi, Index, Learned, NoPositions, Relative, Rotary, Sinusoidal
from tests.papers.stacks import normal
from tests.tolerances import assert_close


def counted(length: int) -> Tensor:
    return torch.arange(length)[None]


# -- added to the embedding ------------------------------------------------------------------------------


def sinusoids(length: int, width: int, base: float) -> Tensor:
    """PE(t, 2i) = sin(t / base^(2i/d)), PE(t, 2i + 1) = cos(t / base^(2i/d)), number by number."""
    table = torch.zeros(length, width, dtype=torch.float64)
    for t in range(length):
        for feature in range(width):
            angle = t / base ** (2 * (feature // 2) / width)
            table[t, feature] = math.cos(angle) if feature % 2 else math.sin(angle)
    return table


def table_of(spec, length: int, width: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return spec.additive(width, length)(torch.zeros(1, length, width, dtype=dtype), counted(length))[0]


def test_i_am_a_robot() -> None:
    """Four words, four features, base 100, to two decimals."""
    wanted = torch.tensor(
        [[0.0, 1.0, 0.0, 1.0], [0.84, 0.54, 0.10, 1.0], [0.91, -0.42, 0.20, 0.98], [0.14, -0.99, 0.30, 0.96]]
    ).double()
    assert (table_of(Sinusoidal(base=100.0), 4, 4) - wanted).abs().max() <= 0.005 + 1e-9


@pytest.mark.parametrize("width", [4, 16, 7])
@pytest.mark.parametrize("base", [100.0, 10_000.0])
def test_sinusoidal(width: int, base: float) -> None:
    table = table_of(Sinusoidal(base=base), 50, width)
    assert_close(table, sinusoids(50, width, base))
    assert table.abs().max() <= 1.0


def test_sinusoidal_in_float32_is_right_at_the_thousandth_token() -> None:
    """An angle of 1000 radians is known to 1000 * 2^-24 in float32, and its sine no better."""
    table = table_of(Sinusoidal(), 1001, 8, torch.float32)
    assert (table.double() - sinusoids(1001, 8, 10_000.0)).abs().max() < 1e-4


def test_sinusoidal_offsets_are_rotations() -> None:
    """Why sines: PE(t + k) is one linear map of PE(t), whatever t."""
    table = sinusoids(40, 8, 10_000.0)
    assert_close(table_of(Sinusoidal(), 40, 8), table)
    solution = torch.linalg.lstsq(table[:30], table[5:35]).solution
    assert_close(table[:30] @ solution, table[5:35], because="an offset of 5")


def test_learned_adds_a_row_of_its_table() -> None:
    learned = Learned().additive(6, 9).double()
    with torch.no_grad():
        learned.weight.copy_(normal((9, 6)))
    x, positions = normal((2, 3, 6), seed=1), torch.tensor([[0, 1, 2], [4, 8, 0]])
    expected = torch.stack(
        [torch.stack([x[b, t] + learned.weight[positions[b, t]] for t in range(3)]) for b in range(2)]
    )
    assert torch.equal(learned(x, positions), expected)


def test_index_adds_the_position_times_one_vector() -> None:
    """It does badly because it grows: the hundredth token's vector is a hundred times the first's."""
    index = Index().additive(6, 9).double()
    with torch.no_grad():
        index.weight.copy_(normal((1, 6)))
    added = index(torch.zeros(1, 101, 6).double(), counted(101))[0]
    assert_close(added[3], 3 * index.weight[0])
    assert_close(added[100], 100 * added[1])


def test_no_positions_are_nothing_anywhere() -> None:
    x, positions = normal((1, 3, 4)), counted(3)
    assert NoPositions().additive(4, 3)(x, positions) is x
    assert NoPositions().rotation(4)(x, positions) is x
    assert NoPositions().bias(2, two_way=True)(positions, positions) is None


# -- turned into query and key ---------------------------------------------------------------------------


def turned(x: Tensor, t: int, base: float) -> Tensor:
    """Su et al.: feature pairs as complex numbers, times e^(i t w); a pair is a feature and the one half a head on."""
    half = len(x) // 2
    numbers = torch.complex(x[:half], x[half:])
    rates = torch.tensor([base ** (-2 * i / len(x)) for i in range(half)], dtype=torch.float64)
    numbers = numbers * torch.exp(1j * t * rates)
    return torch.cat((numbers.real, numbers.imag))


def test_rotary() -> None:
    rotate = Rotary(base=100.0).rotation(8)
    q, positions = normal((2, 3, 5, 8)), torch.tensor([[0, 1, 2, 3, 4], [7, 0, 30, 2, 1]])
    for b in range(2):
        for h in range(3):
            for t in range(5):
                expected = turned(q[b, h, t], int(positions[b, t]), 100.0)
                assert_close(rotate(q, positions)[b, h, t], expected)


def test_rotary_leaves_the_features_it_does_not_share_alone() -> None:
    q = normal((1, 2, 5, 8))
    rotated = Rotary(share=0.5).rotation(8)(q, counted(5))
    assert torch.equal(rotated[..., 4:], q[..., 4:])
    for t in range(5):
        assert_close(rotated[0, 1, t, :4], turned(q[0, 1, t, :4], t, 10_000.0))


def test_rotary_logits_depend_on_the_distance_alone() -> None:
    """One query and one key, everywhere: q_t . k_s is a function of t - s, and not a constant one."""
    rotate = Rotary().rotation(8)
    q, k = normal((8,), seed=1).expand(1, 1, 12, 8), normal((8,), seed=2).expand(1, 1, 12, 8)
    logits = (rotate(q, counted(12)) @ rotate(k, counted(12)).transpose(-2, -1))[0, 0]
    for distance in range(-11, 12):
        diagonal = logits.diagonal(-distance)
        assert_close(diagonal, diagonal[:1].expand_as(diagonal))
    assert logits[:, 0].std() > 0.1
    assert_close(
        rotate(q, counted(12)).square().sum(dim=-1), q.square().sum(dim=-1), because="a rotation keeps lengths"
    )


# -- added to the logits ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("heads", "slopes"),
    [
        (8, [2.0**-i for i in range(1, 9)]),
        # Not a power of two: those of 8 heads, then every second one of 16's, from its first.
        (12, [2.0**-i for i in range(1, 9)] + [2.0**-0.5, 2.0**-1.5, 2.0**-2.5, 2.0**-3.5]),
    ],
)
def test_alibi(heads: int, slopes: list[float]) -> None:
    bias = ALiBi().bias(heads, two_way=False)(counted(6), counted(6))
    assert bias.shape == (1, heads, 6, 6)
    for h in range(heads):
        for t in range(6):
            for s in range(6):
                assert bias[0, h, t, s].item() == pytest.approx(-slopes[h] * abs(t - s), rel=1e-6)


def bucket(offset: int, buckets: int, max_distance: int, two_way: bool) -> int:
    """T5: half of the buckets for single distances, half for ranges that grow by one ratio, in whole numbers.

    Bucket exact + j begins at the distance exact * (max_distance / exact)^(j / far): the largest j it has reached.
    """
    first = 0
    if two_way:
        buckets //= 2
        first = buckets if offset > 0 else 0
        distance = abs(offset)
    else:
        distance = max(-offset, 0)
    exact = buckets // 2
    if distance < exact:
        return first + distance
    far = buckets - exact
    reached = [j for j in range(far) if distance**far * exact**j >= max_distance**j * exact**far]
    return first + exact + max(reached)


@pytest.mark.parametrize("two_way", [True, False])
@pytest.mark.parametrize(("buckets", "max_distance"), [(32, 128), (8, 20), (16, 100)])
def test_t5_buckets(two_way: bool, buckets: int, max_distance: int) -> None:
    relative = Relative(buckets=buckets, max_distance=max_distance).bias(2, two_way)
    offsets = torch.arange(-300, 301)
    expected = [bucket(int(offset), buckets, max_distance, two_way) for offset in offsets]
    wrong = [
        (int(offset), int(ours), wanted)
        for offset, ours, wanted in zip(offsets, relative.bucket(offsets), expected, strict=True)
        if ours != wanted
    ]
    assert wrong == [], "offset, bucket, wanted"


def test_t5_buckets_at_the_defaults_of_the_paper() -> None:
    """32 buckets, 128 tokens, worked out by hand: exact to 7 two-way, to 15 causally; keys ahead from 16 on."""
    two_way, causal = Relative().bias(1, True), Relative().bias(1, False)
    assert two_way.bucket(torch.tensor([0, -1, -7, -8, -127, -128, -999])).tolist() == [0, 1, 7, 8, 15, 15, 15]
    assert two_way.bucket(torch.tensor([1, 7, 8, 127, 999])).tolist() == [17, 23, 24, 31, 31]
    assert causal.bucket(torch.tensor([0, -1, -15, -16, -127, -999, 1, 50])).tolist() == [0, 1, 15, 16, 31, 31, 0, 0]


def test_t5_bias_is_the_row_of_the_bucket_for_each_head() -> None:
    relative = Relative(buckets=8, max_distance=20).bias(3, two_way=True).double()
    with torch.no_grad():
        relative.weight.copy_(normal((8, 3)))
    bias = relative(counted(25), counted(25))
    for t in range(25):
        for s in range(25):
            assert torch.equal(bias[0, :, t, s], relative.weight[bucket(s - t, 8, 20, True)])
