"""Designs that are one and the same for some values of their parameters."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from addnorm.arrangements import CATALOGUE, DeepNorm, Gated, PostLN, PreLN, ResiDual, Scaled, ScaledPost
from tests.papers.formulas import layer_norm
from tests.papers.stacks import SHAPES, Case, Place, Specimen, specimen, twin
from tests.papers.test_mix_ln import mix_ln
from tests.papers.test_pre_ln import final_norm
from tests.tolerances import assert_close

every_shape = pytest.mark.parametrize("case", [Case(shape, torch.float64) for shape in SHAPES], ids=str)


# -- Post-LN's relatives ---------------------------------------------------------------------------------


@every_shape
def test_deep_norm_with_alpha_and_beta_one_is_post_ln(case: Case) -> None:
    the = specimen(PostLN(), case)
    assert_close(twin(the, DeepNorm(alpha=1.0, beta=1.0), case).output(), the.output())
    assert (twin(the, DeepNorm(), case).output() - the.output()).abs().max() > 1e-3, "alpha does nothing"


@every_shape
def test_admin_before_calibration_is_post_ln(case: Case) -> None:
    the = specimen(PostLN(), case)
    assert_close(twin(the, "admin", case).output(), the.output())


@every_shape
def test_scaled_post_with_one_is_post_ln(case: Case) -> None:
    the = specimen(PostLN(), case)
    assert_close(twin(the, ScaledPost(constant=1.0), case).output(), the.output())


@every_shape
def test_b2t_without_its_extra_skip_is_post_ln(case: Case) -> None:
    the = specimen(PostLN(), case)
    ours = twin(the, "b2t", case)
    assert (ours.output() - the.output()).abs().max() > 1e-3, "the extra skip does nothing"
    for block in ours.stack.blocks:
        take_back_the_bottom(*block.sublayers.values())
    assert_close(ours.output(), the.output())


def take_back_the_bottom(first: nn.Module, *others: nn.Module) -> None:
    """The last sub-layer subtracts what the first one read: the block's input, as the extra skip will add it."""
    bottom: list[Tensor] = []
    first.register_forward_pre_hook(lambda module, args: bottom.append(args[0]))
    others[-1].register_forward_hook(lambda module, args, y: y - bottom.pop())


@every_shape
def test_resi_dual_is_post_ln_plus_the_norm_of_the_untouched_stream(case: Case) -> None:
    post = specimen(PostLN(), case)
    ours = twin(post, "resi_dual", case)
    said = listen(post)
    p = post.output()
    r = post.x + sum(said[1:], said[0])
    gain, bias = ours.close["norm.weight"], ours.close["norm.bias"]
    assert_close(ours.output() - p, layer_norm(r, gain, bias, eps=1e-7))


def listen(the: Specimen) -> list[Tensor]:
    """What every sub-layer says, in order, once the stack has run."""
    said: list[Tensor] = []
    for block in the.stack.blocks:
        for sublayer in block.sublayers.values():
            sublayer.register_forward_hook(lambda module, args, y: said.append(y))
    return said


@every_shape
def test_the_guard_of_resi_dual_changes_no_more_than_eps_does(case: Case) -> None:
    """The second stream times a constant c, under a norm: LN of c r with eps is LN of r with eps / c^2."""
    plain = specimen(ResiDual(), case)
    guarded = twin(plain, ResiDual(guard=0.05), case)
    said = listen(plain)
    y = plain.output()
    r = plain.x + sum(said[1:], said[0])
    gain, bias = plain.close["norm.weight"], plain.close["norm.bias"]
    p = y - layer_norm(r, gain, bias, eps=1e-7)
    assert_close(guarded.output(), p + layer_norm(r, gain, bias, eps=1e-7 / 0.05**2))


# -- Pre-LN's relatives ----------------------------------------------------------------------------------


@every_shape
def test_scaled_with_one_is_pre_ln(case: Case) -> None:
    the = specimen(PreLN(), case)
    assert_close(twin(the, Scaled(constant=1.0), case).output(), the.output())


@every_shape
def test_concat_is_born_as_pre_ln(case: Case) -> None:
    the = specimen(PreLN(), case)
    assert_close(twin(the, "concat", case).output(), the.output())


@every_shape
def test_hyper_connections_are_born_as_pre_ln(case: Case) -> None:
    """n equal lanes sum to n x, and the final norm divides n away; only its eps then counts n^2 times less."""
    the = specimen(PreLN(), case)
    ours = twin(the, "hyper_connections", case, lambda name: name.replace("close.", "close.norm."))
    expected = layer_norm(before_the_end(the), the.close["weight"], the.close["bias"], eps=1e-5 / 4**2)
    assert_close(ours.output(), expected)
    # How close to Pre-LN itself: sqrt(var + eps) against sqrt(var + eps / 16), a relative 0.47 eps / var.
    variance = before_the_end(the).var(dim=-1, unbiased=False).min().item()
    normed = (the.output() - the.close["bias"]).abs()
    assert ((ours.output() - the.output()).abs() <= 0.47 * 1e-5 / variance * normed + 1e-12).all()
    assert (ours.output() - the.output()).abs().max() > 1e-8, "eps should show"


def before_the_end(the: Specimen) -> Tensor:
    """The stream that a stack hands to its close."""
    seen: list[Any] = []
    handle = the.stack.close.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    the.output()
    handle.remove()
    return seen[0]


@every_shape
def test_sandwich_without_its_outer_norms_is_pre_ln_and_without_its_inner_ones_res_post(case: Case) -> None:
    for absent, other in (("branch", "pre_ln"), ("before", "res_post")):
        the = specimen("sandwich", case)
        for block in the.stack.blocks:
            for connection in block.connections.values():
                setattr(connection, absent, nn.Identity())
        assert_close(twin(the, other, case).output(), the.output())


@every_shape
def test_a_gate_shut_is_the_identity_and_a_gate_open_has_no_skip(case: Case) -> None:
    the = specimen(PreLN(), case)
    shut = twin(the, Gated(bias=-1e4), case)
    assert_close(shut.output(), final_norm(the.x, the.close))
    opened = twin(the, Gated(bias=1e4), case)
    assert_close(opened.output(), chain(the.x, the.layers, the.close))


def chain(x: Tensor, layers: list[list[Place]], close: dict) -> Tensor:
    for layer in layers:
        for F, p in layer:
            x = F(layer_norm(x, p["before.weight"], p["before.bias"]))
    return final_norm(x, close)


# -- mixtures --------------------------------------------------------------------------------------------


@every_shape
def test_mix_ln_without_post_ln_layers_is_pre_ln(case: Case) -> None:
    the = specimen(PreLN(), case)
    assert_close(twin(the, CATALOGUE["mix_ln"].replace({"share": 0.0}), case).output(), the.output())


@every_shape
def test_mix_ln_of_post_ln_layers_alone_keeps_its_final_norm(case: Case) -> None:
    the = specimen(CATALOGUE["mix_ln"].replace({"share": 1.0}), case)
    assert_close(the.output(), mix_ln(1.0, len(the.layers))(the.x, the.layers, the.close))
