"""The norms of the package against their formulas, and over which axes each of them averages."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from addnorm.layers.norms import BatchNorm, InstanceNorm, LayerNorm, NoNorm, RMSNorm, ScaleNorm
from tests.papers.formulas import layer_norm, rms_norm, scale_norm
from tests.papers.stacks import DTYPES, normal, redraw
from tests.tolerances import assert_close

WIDTH = 10


def made(spec, dtype: torch.dtype):
    norm = spec.build(WIDTH).to(dtype)
    redraw(norm, seed=3)
    return norm


def rows(dtype: torch.dtype, scale: float = 1.0) -> Tensor:
    """Away from mean zero, so that what subtracts the mean differs from what does not."""
    return scale * (normal((3, 5, WIDTH), seed=1, dtype=dtype) + 2.0)


# An input of size 1e-3 has squares of the size of eps: where eps stands, and how large it is, then decides.
every_size = pytest.mark.parametrize("scale", [1.0, 1e-3])
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


@every_dtype
@every_size
def test_layer_norm(dtype: torch.dtype, scale: float) -> None:
    norm, x = made(LayerNorm(eps=1e-5), dtype), rows(dtype, scale)
    assert_close(norm(x), layer_norm(x, norm.weight, norm.bias, eps=1e-5))


@every_dtype
@every_size
def test_layer_norm_without_bias(dtype: torch.dtype, scale: float) -> None:
    norm, x = made(LayerNorm(bias=False), dtype), rows(dtype, scale)
    assert [name for name, _ in norm.named_parameters()] == ["weight"]
    assert_close(norm(x), layer_norm(x, norm.weight, torch.zeros(WIDTH, dtype=dtype)))


@every_dtype
@every_size
def test_rms_norm(dtype: torch.dtype, scale: float) -> None:
    norm, x = made(RMSNorm(eps=1e-6), dtype), rows(dtype, scale)
    assert [name for name, _ in norm.named_parameters()] == ["weight"]
    assert_close(norm(x), rms_norm(x, norm.weight, eps=1e-6))


@every_dtype
@every_size
def test_scale_norm(dtype: torch.dtype, scale: float) -> None:
    norm, x = made(ScaleNorm(eps=1e-5), dtype), rows(dtype, scale)
    assert norm.weight.numel() == 1
    assert_close(norm(x), scale_norm(x, norm.weight, eps=1e-5))


def test_scale_norm_gives_every_vector_the_length_sqrt_d_at_birth_and_zero_stays_zero() -> None:
    norm = ScaleNorm().build(WIDTH).double()
    length = norm(rows(torch.float64)).square().sum(dim=-1).sqrt()
    torch.testing.assert_close(length, torch.full_like(length, WIDTH**0.5), rtol=1e-7, atol=0.0)
    assert torch.equal(norm(torch.zeros(1, 1, WIDTH).double()), torch.zeros(1, 1, WIDTH).double())


def test_no_norm_is_nothing() -> None:
    x = rows(torch.float64)
    assert NoNorm().build(WIDTH)(x) is x


@every_dtype
def test_batch_norm_averages_over_batch_and_positions(dtype: torch.dtype) -> None:
    norm, x = made(BatchNorm(), dtype), rows(dtype)
    centred = x - x.mean(dim=(0, 1))
    variance = centred.square().mean(dim=(0, 1))
    norm.train()
    assert_close(norm(x), norm.weight * centred / torch.sqrt(variance + 1e-5) + norm.bias)


@every_dtype
def test_batch_norm_remembers_a_tenth_of_each_batch(dtype: torch.dtype) -> None:
    """Running statistics start at 0 and 1; the running variance is the unbiased one."""
    norm, x = made(BatchNorm(), dtype), rows(dtype)
    norm.train()
    norm(x)
    mean, variance = x.mean(dim=(0, 1)), x.reshape(-1, WIDTH).var(dim=0, unbiased=True)
    mean, variance = 0.1 * mean, 0.9 + 0.1 * variance
    assert_close(norm.eval()(x), norm.weight * (x - mean) / torch.sqrt(variance + 1e-5) + norm.bias)


@every_dtype
def test_instance_norm_averages_over_positions(dtype: torch.dtype) -> None:
    norm, x = made(InstanceNorm(), dtype), rows(dtype)
    centred = x - x.mean(dim=1, keepdim=True)
    variance = centred.square().mean(dim=1, keepdim=True)
    assert_close(norm(x), norm.weight * centred / torch.sqrt(variance + 1e-5) + norm.bias)


@pytest.mark.parametrize(
    ("spec", "touched"),
    [
        (LayerNorm(), {(0, 0)}),
        (RMSNorm(), {(0, 0)}),
        (ScaleNorm(), {(0, 0)}),
        (InstanceNorm(), {(0, t) for t in range(5)}),
        (BatchNorm(), {(b, t) for b in range(3) for t in range(5)}),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_who_feels_a_change_of_one_token(spec, touched: set[tuple[int, int]]) -> None:
    """Why layer norm here: only the norms over features leave the other tokens alone."""
    norm, x = made(spec, torch.float64).train(), rows(torch.float64)
    changed = x.clone()
    changed[0, 0, 0] += 1.0
    moved = (norm(x) - norm(changed)).abs().amax(dim=-1) > 1e-9
    assert {(int(b), int(t)) for b, t in moved.nonzero()} == touched
    assert spec.position_wise == (len(touched) == 1)


def test_rms_norm_is_layer_norm_on_centred_rows() -> None:
    """The one thing RMSNorm leaves out is the mean."""
    x = rows(torch.float64)
    centred = x - x.mean(dim=-1, keepdim=True)
    layer, rms = LayerNorm(eps=1e-6).build(WIDTH).double(), RMSNorm(eps=1e-6).build(WIDTH).double()
    assert_close(rms(centred), layer(x))
    assert (rms(x) - layer(x)).abs().max() > 0.1
