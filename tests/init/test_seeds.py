"""One seed, one set of weights: in every precision, in every order, whatever the caller's random state."""

import pytest
import torch

from addnorm.init import XavierUniform, initialise
from addnorm.layers.part import Linear
from addnorm.models import BUNDLES, build, make_spec
from tests.init.stage import WIDTH, Design, Fused, Whole

SIZES = {"vocab": 11, "width": 8, "heads": 2, "depth": 2}
# A gain that is no power of two, tables of every role, gates and memories.
DRAWN = make_spec("gated", mode="decoder", positions="learned", feed_forward="swiglu", **SIZES)
GAINED = make_spec("deep_norm", mode="encoder_decoder", positions="relative", **SIZES)

every_spec = pytest.mark.parametrize("spec", [DRAWN, GAINED], ids=["gated decoder", "deep_norm encoder-decoder"])


def assert_same_weights(ours, theirs):
    for (name, mine), (_, other) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        assert torch.equal(mine, other), name


def drawn_names(model):
    """Those that are drawn, and not set to a constant."""
    born = {id(tensor) for _, _, top in model.sites() for part in top.modules() for _, tensor in part_weights(part)}
    return [name for name, parameter in model.named_parameters() if id(parameter) in born]


def part_weights(part):
    return part.weights() if hasattr(part, "weights") else ()


@every_spec
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_every_precision_holds_the_same_draw_cast(spec, dtype):
    assert_same_weights(spec.build(3).to(dtype).born(4), spec.build(4).to(dtype))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_torch_s_default_dtype_does_not_change_the_draw(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        model = DRAWN.build(3)
    finally:
        torch.set_default_dtype(before)
    assert_same_weights(model, DRAWN.build(3).to(dtype))


@every_spec
def test_the_global_random_state_has_no_say_and_is_left_alone(spec):
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = spec.build(3)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    assert_same_weights(spec.build(3), first)


@every_spec
def test_what_was_built_before_has_no_say(spec):
    first = spec.build(3)
    BUNDLES["ft_transformer"].replace({"width": 8, "depth": 1}).build(9)
    assert_same_weights(spec.build(3), first)


def test_the_order_of_the_parts_has_no_say():
    def born(backwards):
        entries = [(Design(), "a", Linear(WIDTH, WIDTH, "up")), (Design(), "b", Fused())]
        model = Whole(*(reversed(entries) if backwards else entries))
        initialise(model, XavierUniform(), 3)
        return dict(model.named_parameters())

    forwards, backwards = born(False), born(True)
    assert all(torch.equal(forwards[name], backwards[name]) for name in forwards)


@every_spec
def test_another_seed_changes_every_drawn_weight(spec):
    one, two = spec.build(3), spec.build(4)
    names = drawn_names(one)
    assert len(names) > 10
    other = dict(two.named_parameters())
    for name, parameter in one.named_parameters():
        assert torch.equal(parameter, other[name]) == (name not in names), name


@every_spec
def test_no_two_weights_are_drawn_alike(spec):
    """Every weight has a generator of its own: layers must not start as copies of each other."""
    model = spec.build(3)
    named = dict(model.named_parameters())
    beginnings = {tuple((named[name] / named[name].norm()).flatten()[:4].tolist()) for name in drawn_names(model)}
    assert len(beginnings) == len(drawn_names(model))


def test_a_deeper_model_begins_with_the_same_layers():
    shallow, deep = (build("pre_ln", **(SIZES | {"depth": depth})) for depth in (1, 3))
    same = dict(deep.named_parameters())
    for name, parameter in shallow.named_parameters():
        assert torch.equal(parameter, same[name]), name


def test_born_again_is_born():
    model = DRAWN.build(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(7.0)
    assert_same_weights(model.born(4), DRAWN.build(4))
