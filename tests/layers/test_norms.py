"""Norms: the same numbers as torch's own, and which elements have a say in which."""

import pytest
import torch
from torch import nn

from addnorm.layers.norms import BatchNorm, InstanceNorm, LayerNorm, NoNorm, RMSNorm, ScaleNorm
from tests.layers.stage import BATCH, LENGTH, WIDTH, draw, redraw
from tests.tolerances import assert_close

X = draw(BATCH, LENGTH, WIDTH, seed=1) + 0.3


def with_weights_of(ours, peer):
    peer.double()
    peer.load_state_dict(ours.state_dict(), strict=False)
    return peer


@pytest.mark.parametrize("bias", [True, False])
def test_layer_norm_is_torch_s(bias):
    ours = redraw(LayerNorm(eps=0.01, bias=bias).build(WIDTH))
    peer = with_weights_of(ours, nn.LayerNorm(WIDTH, eps=0.01, bias=bias))
    assert_close(ours(X), peer(X))


def test_rms_norm_is_torch_s():
    ours = redraw(RMSNorm(eps=0.01).build(WIDTH))
    assert_close(ours(X), with_weights_of(ours, nn.RMSNorm(WIDTH, eps=0.01))(X))


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_is_torch_s(training):
    """torch wants features second; its running statistics are the same after two batches."""
    ours = redraw(BatchNorm(eps=0.01, momentum=0.3).build(WIDTH))
    peer = with_weights_of(ours, nn.BatchNorm1d(WIDTH, eps=0.01, momentum=0.3))
    ours(draw(BATCH, LENGTH, WIDTH, seed=2)), peer(draw(BATCH, LENGTH, WIDTH, seed=2).transpose(1, 2))
    ours.train(training), peer.train(training)
    assert_close(ours(X), peer(X.transpose(1, 2)).transpose(1, 2))
    assert_close(ours.running_mean, peer.running_mean)
    assert_close(ours.running_var, peer.running_var)


@pytest.mark.parametrize("training", [True, False])
def test_instance_norm_is_torch_s(training):
    ours = redraw(InstanceNorm(eps=0.01).build(WIDTH)).train(training)
    peer = with_weights_of(ours, nn.InstanceNorm1d(WIDTH, eps=0.01, affine=True)).train(training)
    assert_close(ours(X), peer(X.transpose(1, 2)).transpose(1, 2))


AXES = {
    "layer_norm": (LayerNorm(), "features"),
    "rms_norm": (RMSNorm(), "features"),
    "scale_norm": (ScaleNorm(), "features"),
    "batch_norm": (BatchNorm(), "batch and positions"),
    "instance_norm": (InstanceNorm(), "positions"),
    "no_norm": (NoNorm(), "nothing"),
}

READS = {
    "features": (slice(1, 2), slice(2, 3), slice(None)),
    "batch and positions": (slice(None), slice(None), slice(3, 4)),
    "positions": (slice(1, 2), slice(None), slice(3, 4)),
    "nothing": (slice(1, 2), slice(2, 3), slice(3, 4)),
}
"""Which elements of x have a say in element (1, 2, 3) of y."""


@pytest.mark.parametrize("kind", AXES)
def test_axes(kind):
    norm, axes = AXES[kind]
    x = X.clone().requires_grad_()
    redraw(norm.build(WIDTH))(x)[1, 2, 3].backward()
    expected = torch.zeros(X.shape, dtype=torch.bool)
    expected[READS[axes]] = True
    assert torch.equal(x.grad != 0, expected)


@pytest.mark.parametrize("kind", AXES)
def test_position_wise_says_whether_positions_meet(kind):
    norm, axes = AXES[kind]
    assert norm.position_wise == ("positions" not in axes)


@pytest.mark.parametrize("kind", AXES)
def test_a_row_of_zeros_is_finite_in_both_directions(kind):
    x = X.clone()
    x[0] = 0.0
    x.requires_grad_()
    y = redraw(AXES[kind][0].build(WIDTH))(x)
    (y * draw(*y.shape)).sum().backward()
    assert y.isfinite().all()
    assert x.grad.isfinite().all()
