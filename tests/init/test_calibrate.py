"""Calibration's manners: what it asks for, and what it leaves behind when something fails."""

import pytest
import torch
from torch import nn

from addnorm import build, calibrate

SIZES = {"vocab": 11, "width": 8, "heads": 2, "depth": 2}
TOKENS = torch.tensor([[1, 2, 3], [4, 5, 6]])


def hooks(model):
    return sum(len(module._forward_pre_hooks) for module in model.modules())


def test_it_wants_a_model():
    with pytest.raises(TypeError, match=r"calibrate: wanted a model of addnorm, .* came str"):
        calibrate("admin", TOKENS)


def test_it_wants_a_model_that_knows_its_sites():
    with pytest.raises(TypeError, match="calibrate: wanted a model of addnorm"):
        calibrate(nn.Linear(2, 2), torch.ones(1, 2))


def test_it_wants_a_batch():
    with pytest.raises(ValueError, match=r"wanted a batch to look at, came none; call calibrate\(model, tokens\)"):
        calibrate(build("admin", **SIZES))


def test_it_returns_how_many_connections_moved():
    """The first site's omega is born one and stays one."""
    model = build("admin", **SIZES)
    assert calibrate(model, TOKENS) == 3
    assert calibrate(model, TOKENS) == 0
    assert calibrate(build("pre_ln", **SIZES), TOKENS) == 0


def test_a_padding_mask_may_be_part_of_the_batch():
    model = build("admin", mode="encoder_decoder", **SIZES)
    assert calibrate(model, TOKENS, TOKENS, torch.ones_like(TOKENS, dtype=torch.bool)) == 8


def test_a_place_in_the_batch_may_be_empty():
    """model(source, target, None, target_padding) is a call like any other."""
    model = build("admin", mode="encoder_decoder", **SIZES)
    assert calibrate(model, TOKENS, TOKENS, None, torch.ones_like(TOKENS, dtype=torch.bool)) == 8


def test_a_mask_that_hides_nothing_changes_nothing():
    plain, masked = build("admin", **SIZES), build("admin", **SIZES)
    calibrate(plain, TOKENS)
    calibrate(masked, TOKENS, torch.ones_like(TOKENS, dtype=torch.bool))
    for mine, other in zip(plain.parameters(), masked.parameters(), strict=True):
        torch.testing.assert_close(mine, other)


def test_a_failure_leaves_no_hook_and_no_mode_behind():
    model = build("admin", **SIZES).eval()
    with pytest.raises(ValueError, match="wanted numbers from 0 to 10"):
        calibrate(model, TOKENS + 100)
    assert hooks(model) == 0
    assert not model.training


def test_no_gradient_is_recorded():
    model = build("admin", **SIZES)
    calibrate(model, TOKENS)
    assert hooks(model) == 0
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())


def test_dropout_is_drawn_from_the_seed_it_is_given():
    def omegas(seed):
        model = build("admin", dropout=0.3, **SIZES)
        calibrate(model, TOKENS, seed=seed)
        return [block.connections["feed_forward"].skip.weight[0].item() for block in model.stack.blocks]

    torch.manual_seed(0)
    first = omegas(1)
    torch.manual_seed(5)
    assert omegas(1) == first
    assert omegas(2) != first
