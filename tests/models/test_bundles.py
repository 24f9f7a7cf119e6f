"""Whole models by name: each lives at a small size, and is its paper's at the paper's."""

import pytest
import torch

from addnorm.models import BUNDLES, make_spec
from tests.models.small import SIZES, assert_lives, batch_for

SMALL = {
    name: {key: size for key, size in SIZES.items() if key in type(spec).model_fields} for name, spec in BUNDLES.items()
}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", BUNDLES)
def test_a_small_one_lives(name, training):
    model = make_spec(name, **SMALL[name]).build().train(training)
    output = assert_lives(model)
    widths = {"encoder": 8, "ft_transformer": 1}
    assert output.shape[-1] == widths.get(model.spec.kind, 11)


@pytest.mark.parametrize("name", BUNDLES)
def test_dropout_is_the_paper_s_and_off_when_evaluating(name):
    model = make_spec(name, **SMALL[name]).build().eval()
    with torch.no_grad():
        assert torch.equal(model(*batch_for(model)), model(*batch_for(model)))


@pytest.mark.parametrize("name", BUNDLES)
def test_round_trip(name):
    spec = BUNDLES[name]
    assert type(spec).from_yaml(spec.to_yaml()) == spec


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("gpt2", 124_439_808),
        ("t5", 60_506_624),
        ("bert", 108_891_648),  # 109,482,240 with the pooler
        ("ft_transformer", 894_913),
    ],
)
def test_parameters_at_the_paper_s_size(name, count):
    with torch.device("meta"):
        assert BUNDLES[name].build().parameter_count() == count


def test_vaswani_s_base_model_is_65_million():
    """One table of 37,000 words, 12 + 18 sub-layers of attention and feed-forward."""
    with torch.device("meta"):
        model = BUNDLES["vaswani"].build()
    attention = 4 * (512 * 512 + 512)
    feed_forward = 2 * 512 * 2048 + 2048 + 512
    norms = 30 * 2 * 512
    assert model.parameter_count() == 37_000 * 512 + 18 * attention + 12 * feed_forward + norms
