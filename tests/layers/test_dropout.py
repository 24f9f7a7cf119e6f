"""Dropout in four places, each in its own."""

import pytest
import torch
from torch import nn

from addnorm.layers.dropout import Dropout
from addnorm.models import make_spec
from addnorm.spec import SpecError

PLACES = ("embedding", "attention", "hidden", "branch")
SIZES = {"vocab": 11, "width": 8, "heads": 2, "depth": 1}


def model_with(**rates):
    return make_spec("pre_ln", mode="decoder", dropout=Dropout(**rates), **SIZES).build()


@pytest.mark.parametrize("place", PLACES)
def test_each_place_acts_alone_and_in_training_alone(place):
    tokens = torch.tensor([[1, 2, 3, 4]])
    model = model_with(**{place: 0.5})
    torch.manual_seed(0)
    assert not torch.equal(model(tokens), model(tokens))
    model.eval()
    assert torch.equal(model(tokens), model_with().eval()(tokens))


def rate_of(dropout):
    """Where nothing is dropped stands a plain function."""
    return dropout.p if isinstance(dropout, nn.Dropout) else 0.0


@pytest.mark.parametrize("place", PLACES)
def test_each_place_is_where_its_name_says(place):
    model = model_with(**{place: 0.5})
    attention, feed_forward = model.stack.blocks[0].sublayers.values()
    rates = {
        "embedding": {rate_of(model.embedding.dropout)},
        "attention": {attention.weight_dropout},
        "hidden": {rate_of(feed_forward.hidden_dropout)},
        "branch": {rate_of(attention.dropout), rate_of(feed_forward.dropout)},
    }
    assert {name for name, found in rates.items() if found == {0.5}} == {place}
    assert sum(module.p for module in model.modules() if isinstance(module, nn.Dropout)) == {
        "embedding": 0.5, "attention": 0.0, "hidden": 0.5, "branch": 1.0,
    }[place]  # fmt: skip


def test_everywhere():
    assert Dropout.everywhere(0.1) == Dropout(embedding=0.1, attention=0.1, hidden=0.1, branch=0.1)


@pytest.mark.parametrize("rate", [1.0, -0.1, float("nan")])
def test_a_rate_is_at_least_zero_and_below_one(rate):
    with pytest.raises(SpecError, match="branch: wanted"):
        Dropout(branch=rate)
