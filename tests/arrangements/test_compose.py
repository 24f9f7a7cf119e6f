"""Designs made of designs: every verb is passed on, to the right one."""

import pytest
import torch

from addnorm.arrangements import CATALOGUE, Arrangement, ByLayer, DeepNorm, PreLN, Rescaled, TFixup
from addnorm.arrangements.base import Site
from addnorm.models import make_spec
from addnorm.spec import SpecError


def site(layer, kind="feed_forward", depth=4):
    return Site("decoder", kind, layer, 1, 2, depth, 0, 8, 2)


def test_site_knows_its_place():
    places = [Site("encoder", "self_attention", layer, slot, 3, 2, 0, 8, 2) for layer in range(2) for slot in range(3)]
    assert [place.index for place in places] == [0, 1, 2, 3, 4, 5]
    assert [place.first_slot for place in places] == [True, False, False] * 2
    assert [place.last_slot for place in places] == [False, False, True] * 2


@pytest.mark.parametrize(
    ("share", "first"), [(0.0, []), (0.24, []), (0.25, [0]), (0.5, [0, 1]), (0.99, [0, 1, 2]), (1.0, [0, 1, 2, 3])]
)
def test_by_layer_chooses_by_layer(share, first):
    mixed = ByLayer(first=DeepNorm(), rest=TFixup(), share=share)
    assert [layer for layer in range(4) if mixed.of(site(layer)) == DeepNorm()] == first


def test_by_layer_asks_each_half_for_its_own_gain_and_numbers():
    mixed = ByLayer(first=DeepNorm(), rest=TFixup(), share=0.5)
    for layer, half in ((0, DeepNorm()), (3, TFixup())):
        assert mixed.gain(site(layer), "value") == half.gain(site(layer), "value") != 1.0
        assert mixed.numbers(site(layer)).items() >= half.numbers(site(layer)).items()


def test_by_layer_closes_as_its_last_layers_do():
    """Post-LN needs no closing norm; after Pre-LN layers the stack does."""
    assert isinstance(ByLayer(rest=PreLN()).close(site(4, "close")), torch.nn.Module)
    assert not isinstance(ByLayer(first=PreLN(), rest="post_ln").close(site(4, "close")), torch.nn.Module)


FORMS = {name: design.form() for name, design in CATALOGUE.items()}


@pytest.mark.parametrize("rest", CATALOGUE)
@pytest.mark.parametrize("first", ["pre_ln", "b2t", "resi_dual", "dlcl", "hyper_connections"])
def test_any_two_of_one_form_can_be_joined_and_no_others(first, rest):
    halves = {"first": CATALOGUE[first], "rest": CATALOGUE[rest], "share": 0.5}
    if FORMS[first] != FORMS[rest]:
        with pytest.raises(SpecError, match="choose two that agree"):
            ByLayer(**halves)
        return
    model = make_spec(ByLayer(**halves), mode="encoder", vocab=5, width=4, heads=1, depth=2).build()
    assert model(torch.tensor([[1, 2, 3]])).isfinite().all()


def test_lanes_must_agree_in_number():
    with pytest.raises(SpecError, match=r"with 2 lanes and rest=hyper_connections with 3 lanes"):
        ByLayer(
            first={"kind": "hyper_connections", "lanes": 2},
            rest={"kind": "hyper_connections", "lanes": 3},
        )


def test_rescaled_multiplies_what_the_inner_design_asks_for():
    inner = DeepNorm()
    for role in ("output", "down"):
        assert Rescaled(inner=inner).gain(site(0), role) == pytest.approx(inner.gain(site(0), role) * 8**-0.5)
    assert Rescaled(inner=inner).gain(site(0), "value") == inner.gain(site(0), "value")


class Everything(dict):
    """What a design answers, verb by verb."""

    def __init__(self, design: Arrangement, place: Site) -> None:
        super().__init__(
            form=design.form(),
            open=repr(design.open(place)),
            connect=repr(design.connect(place)),
            close=repr(design.close(place)),
            rate=design.rate(place, "up"),
            constrain=design.constrain(place, "up"),
            basis_free=design.basis_free,
        )


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_wrapped_design_answers_as_itself(name):
    inner = CATALOGUE[name]
    assert Everything(Rescaled(inner=inner), site(1)) == Everything(inner, site(1))
    assert Everything(ByLayer(first=inner, rest=inner), site(1)) == Everything(inner, site(1))
