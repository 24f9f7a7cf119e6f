"""A model too large to build twice: made on the meta device, given room, then born."""

import pytest
import torch

from addnorm.models import TabTransformerSpec, make_spec

SIZES = {"vocab": 11, "width": 8, "heads": 2, "depth": 2}
SPECS = {
    "decoder": make_spec("gpt2", **SIZES),
    "encoder-decoder": make_spec("t5", **SIZES),
    "running statistics": make_spec("post_ln", mode="encoder", norm="batch_norm", **SIZES),
    "constants of every kind": make_spec("hyper_connections", mode="decoder", **SIZES),
    "concat": make_spec("concat", mode="decoder", **SIZES),
    "admin": make_spec("admin", mode="encoder", **SIZES),
    "columns": TabTransformerSpec(categories=(2, 3), numeric=2, width=8, heads=2, depth=1),
}


@pytest.mark.parametrize("name", SPECS)
def test_meta_then_room_then_born_equals_a_direct_build(name):
    spec = SPECS[name]
    with torch.device("meta"):
        model = spec.build(1)
    assert all(tensor.is_meta for tensor in model.state_dict().values())
    model.to_empty(device="cpu")
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.fill_(float("nan"))
    direct = spec.build(5).state_dict()
    for key, tensor in model.born(5).state_dict().items():
        assert torch.equal(tensor, direct[key]), key


def test_a_model_on_the_meta_device_counts_its_parameters():
    with torch.device("meta"):
        promised = SPECS["decoder"].build()
    assert promised.parameter_count() == SPECS["decoder"].build().parameter_count()
