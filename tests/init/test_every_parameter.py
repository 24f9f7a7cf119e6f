"""Every parameter is written, by a rule that can be named; what is shared is written once."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from addnorm.init import Kaiming, XavierUniform, constrain, initialise
from addnorm.layers.part import Linear, Part
from tests.init.stage import WIDTH, Design, Fused, Whole


def born(*entries, seed=0, base=None):
    model = Whole(*entries)
    initialise(model, base or XavierUniform(), seed)
    return model


# -- nothing is forgotten ----------------------------------------------------------------------------------


class Forgetful(Part):
    """Speaks of its weight and says nothing of its scale."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(WIDTH, WIDTH))
        self.scale = nn.Parameter(torch.ones(1))

    def weights(self) -> Iterator[tuple[str, Tensor]]:
        yield "up", self.weight


def test_a_part_that_forgets_a_parameter_is_told_which():
    with pytest.raises(ValueError, match=r"no rule gives birth to here\.scale; yield them from weights\(\)"):
        born((Design(), "here", Forgetful()))


def test_a_module_that_is_no_part_is_told_so():
    with pytest.raises(ValueError, match=r"no rule gives birth to here\.weight, here\.bias"):
        born((Design(), "here", nn.Linear(WIDTH, WIDTH)))


def test_a_part_without_a_site_is_told_so():
    model = Whole((Design(), "here", Linear(WIDTH, WIDTH, "up")))
    model.elsewhere = Linear(WIDTH, WIDTH, "down", bias=False)
    with pytest.raises(ValueError, match=r"elsewhere\.weight; .* and yield the Part from the model's sites\(\)"):
        initialise(model, XavierUniform())


def test_a_forgotten_view_is_told():
    with pytest.raises(ValueError, match=r"no rule gives birth to here\.weight"):
        born((Design(), "here", Fused(roles=("query", "key"))))


def test_a_view_written_twice_does_not_stand_for_a_forgotten_one():
    """A shared part is met at two sites: what counts is what was written, not how often."""
    shared = Fused(roles=("query", "key"))
    with pytest.raises(ValueError, match=r"no rule gives birth to here\.weight"):
        born((Design(), "here", shared), (Design(), "here", shared))


# -- views -------------------------------------------------------------------------------------------------


def test_each_view_is_drawn_with_the_fan_of_the_view():
    """Xavier by the fused matrix would be sqrt(2 / (W + 3 W)); by the view it is sqrt(2 / 2 W)."""
    fused = born((Design(), "here", Fused())).here
    for role, view in fused.views().items():
        assert view.std().item() == pytest.approx(WIDTH**-0.5, rel=0.05), role
        assert view.abs().max().item() <= (3 / WIDTH) ** 0.5


def test_each_view_has_its_own_gain_and_its_own_draw():
    fused = born((Design({"value": 0.25}), "here", Fused())).here
    plain = born((Design(), "here", Fused())).here
    assert torch.equal(fused.views()["query"], plain.views()["query"])
    assert torch.equal(fused.views()["value"], plain.views()["value"] * 0.25)
    assert not torch.equal(plain.views()["query"], plain.views()["key"])


class Experts(Part):
    """Two matrices of one role in one parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(2, WIDTH, WIDTH))

    def weights(self) -> Iterator[tuple[str, Tensor]]:
        yield from (("up", expert) for expert in self.weight)


def test_two_views_of_one_role_are_not_drawn_alike():
    first, second = born((Design(), "here", Experts())).here.weight
    assert not torch.equal(first, second)


class FusedBias(Fused):
    """A fused bias, told of view by view as the matrix is."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.full((3 * WIDTH,), float("nan")))

    def constants(self) -> Iterator[tuple[Tensor, float]]:
        for value, view in enumerate(self.bias.chunk(3)):
            yield view, float(value)


def test_constants_may_be_views_too():
    bias = born((Design(), "here", FusedBias())).here.bias
    assert bias.tolist() == [0.0] * WIDTH + [1.0] * WIDTH + [2.0] * WIDTH


# -- gains -------------------------------------------------------------------------------------------------


def test_gain_zero_is_zero_even_where_memory_held_no_number():
    """0 * NaN is NaN: born zero must be written, not multiplied."""
    views = born((Design({"key": 0.0}), "here", Fused())).here.views()
    assert (views["key"] == 0).all()
    assert (views["query"] != 0).any()


def test_a_shared_weight_asked_for_two_gains_is_an_error():
    shared = Linear(WIDTH, WIDTH, "up")
    with pytest.raises(ValueError, match=r"one\.weight is shared by two sites .* gains, 1 and 0\.5; untie it"):
        born((Design(), "one", shared), (Design({"up": 0.5}), "two", shared))


def test_a_shared_weight_is_born_once():
    shared = Linear(WIDTH, WIDTH, "up")
    twice = born((Design({"up": 0.5}), "one", shared), (Design({"up": 0.5}), "two", shared))
    once = born((Design({"up": 0.5}), "one", Linear(WIDTH, WIDTH, "up")))
    assert torch.equal(twice.one.weight, once.one.weight)


# -- constraints -------------------------------------------------------------------------------------------


def unit_rows(weight: Tensor) -> None:
    weight.div_(weight.norm(dim=-1, keepdim=True))


def test_a_constraint_holds_at_birth_and_is_brought_back_after_a_step():
    model = born((Design(rules={"key": unit_rows}), "here", Fused()))
    one = torch.ones(WIDTH)
    torch.testing.assert_close(model.here.views()["key"].norm(dim=-1), one)
    with torch.no_grad():
        model.here.weight.mul_(3.0)
    before = model.here.views()["query"].clone()
    constrain(model)
    torch.testing.assert_close(model.here.views()["key"].norm(dim=-1), one)
    assert torch.equal(model.here.views()["query"], before)


def test_a_constraint_is_applied_after_the_gain():
    model = born((Design({"key": 0.1}, {"key": unit_rows}), "here", Fused()))
    torch.testing.assert_close(model.here.views()["key"].norm(dim=-1), torch.ones(WIDTH))


# -- running statistics ------------------------------------------------------------------------------------


class Counting(Part):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.full((3,), float("nan")))

    def constants(self) -> Iterator[tuple[Tensor, float]]:
        yield self.seen, 2.0


def test_buffers_are_born_too():
    assert born((Design(), "here", Counting()), base=Kaiming()).here.seen.tolist() == [2.0] * 3
