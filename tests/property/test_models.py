"""Whatever validates, builds, runs and comes back from text; whatever does not, says so in one sentence."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from addnorm.models import Decoder, EncoderDecoder, FTTransformer, ModelSpec, TabTransformer
from addnorm.spec import SpecError
from tests.property.specs import is_ours, models

SHORT = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],  # a failure is shown as it was drawn: making it small can take minutes
    suppress_health_check=list(HealthCheck),
)
LONG = settings(SHORT, max_examples=1000, derandomize=False, phases=tuple(Phase))


def batch_for(model: Any) -> dict[str, Any]:
    """Two rows, as long as the model can read, three tokens at most."""
    spec = model.spec
    if isinstance(model, FTTransformer | TabTransformer):
        return {
            "numeric": torch.tensor([[0.5], [-1.0]]).double().expand(2, spec.numeric) if spec.numeric else None,
            "categories": torch.zeros(2, len(spec.categories), dtype=torch.long) if spec.categories else None,
        }
    tokens = torch.tensor([[0, 1, 1], [1, 0, 1]])[:, : spec.max_length]
    if isinstance(model, EncoderDecoder):
        return {"source": tokens, "target": tokens.flip(0)}
    prefixed = isinstance(model, Decoder) and spec.visibility.kind == "prefix_causal"
    return {"tokens": tokens, **({"prefix": torch.tensor([0, 2])} if prefixed else {})}


def assert_lives(spec: ModelSpec) -> None:
    """In float64: large weights in a stack without norms must not hide a real fault behind an overflow."""
    model = spec.build().double()
    torch.manual_seed(0)  # dropout's
    output = model(**batch_for(model))
    assert output.isfinite().all()
    if output.requires_grad:
        (output * torch.linspace(-1, 1, output.numel()).double().view(output.shape)).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.isfinite().all(), f"{name} is born without a number"
        assert parameter.grad is None or parameter.grad.isfinite().all(), f"the gradient of {name}"


def assert_comes_back(spec: ModelSpec) -> None:
    for again in (
        ModelSpec.from_dict(spec.to_dict()),
        ModelSpec.from_json(spec.to_json()),
        ModelSpec.from_yaml(spec.to_yaml()),
    ):
        assert again == spec
        assert hash(again) == hash(spec)
        assert again.fingerprint() == spec.fingerprint()


def assert_one_sentence(error: SpecError) -> None:
    said = str(error)
    assert said
    assert "\n" not in said
    assert "errors.pydantic.dev" not in said
    assert "[type=" not in said


def check(data: dict[str, Any]) -> None:
    try:
        spec = ModelSpec.from_dict(data)
    except SpecError as error:
        event("refused")
        assert_one_sentence(error)
        return
    event(f"lives, {spec.kind}")
    assert_comes_back(spec)
    assert_lives(spec)


KINDS = ("encoder", "decoder", "encoder_decoder", "ft_transformer", "tab_transformer")


def test_every_kind_of_model_is_drawn():
    assert {kind for kind, member in ModelSpec.registry.items() if is_ours(member)} == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
@given(st.data())
@settings(SHORT, max_examples=15)
def test_models(kind, data):
    check(data.draw(models(kind)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@given(st.data())
@settings(LONG, max_examples=200)
def test_a_thousand_models(kind, data):
    check(data.draw(models(kind)))
