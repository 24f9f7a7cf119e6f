"""Masks, drawn. Rows are queries, columns keys; x may be seen, . may not."""

import pytest
import torch

from addnorm.layers.masks import Causal, FullyVisible, Mask, PrefixCausal, make_masks, memory_mask, with_bias

POSITIONS = torch.arange(5)[None]


def table(drawing: str) -> torch.Tensor:
    return torch.tensor([[mark == "x" for mark in line.split()] for line in drawing.strip().splitlines()])


def seen(mask: Mask, rows: int = 5, columns: int = 5, sequence: int = 0) -> torch.Tensor:
    """Who really sees whom: rows that were opened because they may see nothing are closed again."""
    if mask.causal:
        return torch.ones(rows, columns, dtype=torch.bool).tril()
    if mask.allowed is None:
        return torch.ones(rows, columns, dtype=torch.bool)
    allowed = mask.allowed if mask.empty is None else mask.allowed & ~mask.empty
    return allowed[min(sequence, len(allowed) - 1), 0].expand(rows, columns)


def one_mask(rule, window=None, real=None, prefix=None, query=POSITIONS, key=POSITIONS, fresh=True) -> Mask:
    return make_masks(rule, [window], query, key, real, prefix, fresh)[window]


def bits(*rows: str) -> torch.Tensor:
    return torch.tensor([[mark == "1" for mark in row] for row in rows])


EVERYBODY = """
    x x x x x
    x x x x x
    x x x x x
    x x x x x
    x x x x x
"""
TRIANGLE = """
    x . . . .
    x x . . .
    x x x . .
    x x x x .
    x x x x x
"""
PREFIX_OF_THREE = """
    x x x . .
    x x x . .
    x x x . .
    x x x x .
    x x x x x
"""
BAND = """
    x x . . .
    x x x . .
    . x x x .
    . . x x x
    . . . x x
"""
CAUSAL_BAND = """
    x . . . .
    x x . . .
    . x x . .
    . . x x .
    . . . x x
"""
ITSELF = """
    x . . . .
    . x . . .
    . . x . .
    . . . x .
    . . . . x
"""
PREFIX_BAND = """
    x x . . .
    x x x . .
    . x x . .
    . . x x .
    . . . x x
"""


@pytest.mark.parametrize(
    ("rule", "window", "prefix", "drawing"),
    [
        (FullyVisible(), None, None, EVERYBODY),
        (FullyVisible(), 2, None, BAND),
        (FullyVisible(), 5, None, EVERYBODY),
        (Causal(), None, None, TRIANGLE),
        (Causal(), 2, None, CAUSAL_BAND),
        (Causal(), 1, None, ITSELF),
        (Causal(), 9, None, TRIANGLE),
        (PrefixCausal(), None, 3, PREFIX_OF_THREE),
        (PrefixCausal(), None, 0, TRIANGLE),
        (PrefixCausal(), None, 5, EVERYBODY),
        (PrefixCausal(), 2, 3, PREFIX_BAND),
    ],
    ids=lambda value: getattr(value, "kind", None),
)
def test_rules(rule, window, prefix, drawing):
    lengths = None if prefix is None else torch.tensor([prefix])
    assert torch.equal(seen(one_mask(rule, window, prefix=lengths)), table(drawing))


def test_each_row_of_a_batch_has_its_own_prefix():
    mask = one_mask(PrefixCausal(), prefix=torch.tensor([3, 0]))
    assert torch.equal(seen(mask, sequence=0), table(PREFIX_OF_THREE))
    assert torch.equal(seen(mask, sequence=1), table(TRIANGLE))


def test_padding_hides_columns_of_its_own_sequence():
    mask = one_mask(FullyVisible(), real=bits("11100", "11111"))
    assert torch.equal(seen(mask, sequence=0), table("x x x . .\n" * 5))
    assert torch.equal(seen(mask, sequence=1), table(EVERYBODY))


def test_padding_in_front_moves_nothing():
    """Positions count real tokens alone: two pads, then three tokens at 0, 1, 2."""
    positions = torch.tensor([[0, 0, 0, 1, 2]])
    mask = one_mask(Causal(), real=bits("00111"), query=positions, key=positions)
    drawing = """
        . . x . .
        . . x . .
        . . x . .
        . . x x .
        . . x x x
    """
    assert torch.equal(seen(mask), table(drawing))


def test_a_row_that_may_see_nothing_is_marked_and_opened():
    """Opened, because a softmax over nothing is NaN; marked, so that attention makes its answer zero."""
    mask = one_mask(Causal(), real=bits("11111", "00000"))
    assert mask.allowed[1].all()
    assert torch.equal(mask.empty[:, 0, :, 0], torch.tensor([[False] * 5, [True] * 5]))


def test_a_window_may_leave_a_row_with_nothing():
    mask = one_mask(FullyVisible(), window=1, real=bits("11011"))
    assert mask.empty[0, 0, :, 0].tolist() == [False, False, True, False, False]


def test_a_cached_query_sees_what_came_before():
    """Two queries at 3 and 4; the cache holds five columns."""
    query = torch.tensor([[3, 4]])
    real = torch.ones(1, 5, dtype=torch.bool)
    assert torch.equal(
        seen(one_mask(Causal(), real=real, query=query, fresh=False), rows=2), table("x x x x .\nx x x x x")
    )
    windowed = one_mask(Causal(), window=2, real=real, query=query, fresh=False)
    assert torch.equal(seen(windowed, rows=2), table(". . x x .\n. . . x x"))


def test_kernels_are_told_of_the_plain_cases_without_a_tensor():
    assert one_mask(FullyVisible()) == Mask()
    assert one_mask(Causal()) == Mask(causal=True)


def test_one_mask_for_every_window_asked_for():
    masks = make_masks(Causal(), [None, 1, 2], POSITIONS, POSITIONS, None, None, True)
    assert [seen(masks[window]).sum().item() for window in (None, 1, 2)] == [15, 5, 9]


def test_memory_is_seen_by_every_query_where_it_is_real():
    mask = memory_mask(bits("110", "000"))
    assert seen(mask, rows=2, columns=3).tolist() == [[True, True, False]] * 2
    assert mask.empty[:, 0, 0, 0].tolist() == [False, True]
    assert memory_mask(None) == Mask()


@pytest.mark.parametrize("real", [None, bits("11100")], ids=["causal alone", "padded"])
def test_a_bias_keeps_what_is_hidden_hidden(real):
    mask = one_mask(Causal(), real=real)
    bias = torch.arange(25.0).view(1, 1, 5, 5)
    biased = with_bias(mask, bias)
    allowed = seen(mask)
    assert not biased.causal
    assert torch.equal(biased.bias[0, 0][allowed], bias[0, 0][allowed])
    assert (biased.bias[0, 0][~allowed] == float("-inf")).all()


def test_a_bias_without_a_mask_is_the_bias():
    bias = torch.arange(25.0).view(1, 1, 5, 5)
    assert with_bias(Mask(), bias).bias is bias
