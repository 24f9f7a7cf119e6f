"""Admin's omegas from one batch, computed again by hand. Three rules; f_j is what sub-layer j says, dropout included:

    variance_sum   omega_i = sqrt(1 + sum_{j<i} Var f_j)       the default: the 1 is the embedding's share
    recursion      omega_i = r;  r <- sqrt(Var(omega_i x) + Var f_i)     the official code, r starting at 1
    literal_sum    omega_i = sqrt(sum_{j<i} Var f_j)           the paper's, with omega_1 = 1 for the empty sum

The first two visit the sub-layers in order and use each omega at once. The paper looks at the network with all omegas
1, and sets them when it has seen all. Var is the population's, over every element of the tensor, padding included; each
side has a carry of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from addnorm.arrangements import CATALOGUE, Admin, LiteralSum, Recursion, VarianceSum
from addnorm.init import calibrate
from addnorm.models.build import build
from addnorm.models.model import Model
from addnorm.models.stack import Stack
from tests.papers.formulas import layer_norm
from tests.papers.stacks import VOCAB, arguments_of, make_model, places, tokens
from tests.tolerances import assert_close


def variance(x: Tensor) -> float:
    numbers = x.detach().double().flatten()
    return ((numbers - numbers.mean()) ** 2).mean().item()


@torch.no_grad()
def variance_sum(x: Tensor, layers: list) -> tuple[list[float], Tensor]:
    """The omegas of a stack, and what the stack says while it is looked at."""
    total, omegas = 1.0, []
    for layer in layers:
        for F, p in layer:
            f = F(x)
            omegas.append(math.sqrt(total))
            x = layer_norm(omegas[-1] * x + f, p["after.weight"], p["after.bias"])
            total += variance(f)
    return omegas, x


@torch.no_grad()
def recursion(x: Tensor, layers: list) -> tuple[list[float], Tensor]:
    r, omegas = 1.0, []
    for layer in layers:
        for F, p in layer:
            f = F(x)
            omegas.append(r)
            skip = r * x
            x = layer_norm(skip + f, p["after.weight"], p["after.bias"])
            r = math.sqrt(variance(skip) + variance(f))
    return omegas, x


@torch.no_grad()
def literal_sum(x: Tensor, layers: list) -> tuple[list[float], Tensor]:
    variances = []
    for layer in layers:
        for F, p in layer:
            f = F(x)
            x = layer_norm(x + f, p["after.weight"], p["after.bias"])
            variances.append(variance(f))
    return [1.0] + [math.sqrt(sum(variances[:i])) for i in range(1, len(variances))], x


RULES = {
    "variance_sum": (VarianceSum(), variance_sum),
    "recursion": (Recursion(), recursion),
    "literal_sum": (LiteralSum(), literal_sum),
}
every_rule = pytest.mark.parametrize(("profile", "rule"), RULES.values(), ids=RULES)


def make(profile: Any, mode: str, dropout: float = 0.0) -> Model:
    sizes = {"depth": 4, "width": 12, "heads": 2, "vocab": VOCAB}
    return build(Admin(profile=profile), mode=mode, dropout=dropout, dtype=torch.float64, **sizes)


def omegas_of(stack: Stack) -> list[Tensor]:
    return [weight for name, weight in stack.named_parameters() if name.endswith("skip.weight")]


def assert_born_with(stack: Stack, wanted: list[float]) -> None:
    omegas = omegas_of(stack)
    assert len(omegas) == len(wanted)
    for number, (omega, value) in enumerate(zip(omegas, wanted, strict=True)):
        assert omega.tolist() == pytest.approx([value] * len(omega), rel=1e-6), f"sub-layer {number}"


@every_rule
@pytest.mark.parametrize("mode", ["encoder", "decoder"])
@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_a_single_stack(profile: Any, rule: Callable, mode: str, dropout: float) -> None:
    model = make(profile, mode, dropout)
    batch = tokens(rows=3, length=6)
    _, context = arguments_of(model.eval(), model.stack, (batch,))
    with torch.random.fork_rng():
        torch.manual_seed(7)
        model.train()
        x = model.embedding(batch, context.positions)
        wanted, _ = rule(x, places(model.stack, context))
    calibrate(model, batch, seed=7)
    assert wanted[0] == 1.0
    assert len(set(wanted)) == 8
    assert_born_with(model.stack, wanted)


@every_rule
@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_an_encoder_decoder_has_a_carry_on_each_side(profile: Any, rule: Callable, dropout: float) -> None:
    model = make(profile, "encoder_decoder", dropout)
    source, target = tokens(rows=3, length=6, seed=1), tokens(rows=3, length=5)
    padding = torch.ones_like(source, dtype=torch.bool)
    padding[0, 4:] = False  # padded rows are counted as all others
    _, encoder_context = arguments_of(model.eval(), model.encoder, (source, target, padding))
    _, decoder_context = arguments_of(model, model.decoder, (source, target, padding))
    with torch.random.fork_rng():
        torch.manual_seed(7)
        model.train()
        x = model.embedding(source, encoder_context.positions)
        encoder, memory = rule(x, places(model.encoder, encoder_context))
        x = model.embedding(target, decoder_context.positions)
        decoder, _ = rule(x, places(model.decoder, decoder_context._replace(memory=memory)))
    calibrate(model, source, target, padding, seed=7)
    assert (len(encoder), len(decoder)) == (8, 12)
    assert encoder[0] == decoder[0] == 1.0
    assert_born_with(model.encoder, encoder)
    assert_born_with(model.decoder, decoder)


@pytest.mark.parametrize("training", [True, False])
def test_calibration_touches_nothing_else(training: bool) -> None:
    """Neither the random state, nor the mode, nor any parameter but the omegas."""
    model = make(VarianceSum(), "encoder_decoder", dropout=0.2).train(training)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    changed = calibrate(model, tokens(length=6, seed=1), tokens())
    assert torch.equal(torch.rand(3), expected), "the random state moved"
    assert all(module.training == training for module in model.modules()), "the mode moved"
    moved = {name for name, weight in model.state_dict().items() if not torch.equal(weight, before[name])}
    omegas = {name for name in before if name.endswith("skip.weight")}
    firsts = {f"{side}.blocks.0.connections.self_attention.skip.weight" for side in ("encoder", "decoder")}
    assert moved == omegas - firsts, "omega of the first sub-layer is 1 before and after"
    assert changed == len(moved)
    assert all(weight.grad is None for weight in model.parameters())


def test_calibration_leaves_a_mode_that_was_set_by_hand() -> None:
    """A frozen block stands in evaluation mode inside a model in training mode."""
    model = make(VarianceSum(), "encoder", dropout=0.2).train()
    model.stack.blocks[1].eval()
    modes = {name: module.training for name, module in model.named_modules()}
    calibrate(model, tokens())
    assert {name for name, module in model.named_modules() if module.training != modes[name]} == set()


@every_rule
def test_calibrating_again_changes_nothing(profile: Any, rule: Callable) -> None:
    """The same batch and seed give the same omegas, whatever they were before."""
    model, batch = make(profile, "decoder", dropout=0.2), tokens(rows=3, length=6)
    calibrate(model, batch)
    first = [omega.clone() for omega in omegas_of(model.stack)]
    calibrate(model, batch)
    for omega, before in zip(omegas_of(model.stack), first, strict=True):
        assert_close(omega, before)


@pytest.mark.parametrize("design", [name for name in CATALOGUE if name != "admin"])
def test_calibration_changes_no_other_design(design: str) -> None:
    model = make_model(design, "encoder", torch.float32)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    assert calibrate(model, tokens()) == 0
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
