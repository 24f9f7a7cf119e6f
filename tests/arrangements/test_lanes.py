"""Lanes are beside each other, not after each other: a norm over positions must not take them for positions."""

import torch

from addnorm.arrangements import HyperConnections
from addnorm.arrangements.base import Site
from addnorm.layers.norms import InstanceNorm

SITE = Site("encoder", "feed_forward", 0, 0, 2, 2, 0, 6, 2)


def test_instance_norm_averages_over_positions_in_every_lane():
    """How a token mixes its lanes depends on all positions of its sequence, and on no other sequence."""
    mixing = HyperConnections(lanes=3, norm=InstanceNorm()).connect(SITE).mixing
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in mixing.parameters():
            parameter.normal_(generator=generator)
    lanes = torch.randn(2, 4, 3, 6, generator=generator, requires_grad=True)  # (B, T, n, D)
    take, _, _ = mixing(lanes)
    (grad,) = torch.autograd.grad(take[0, 1, 2], lanes)
    felt = grad.abs().sum(-1) > 0  # (B, T, n)
    expected = torch.zeros(2, 4, 3, dtype=torch.bool)
    expected[0, :, 2] = True
    assert torch.equal(felt, expected)
