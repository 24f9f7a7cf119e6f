"""Every design computes on a GPU what it computes on the CPU, from the same seed: forward, gradients, generation."""

import pytest
import torch

from addnorm.arrangements import CATALOGUE
from addnorm.contract import example, random_loss
from addnorm.models import Beam, build

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")]

SIZES = {"vocab": 13, "width": 32, "heads": 4, "depth": 3}


def on(device, name, mode):
    return build(name, mode=mode, **SIZES, device=device, dtype=torch.float64)


def direction_loss(output):
    return random_loss(output.cpu())


@pytest.mark.parametrize("mode", ["encoder", "decoder", "encoder_decoder"])
@pytest.mark.parametrize("name", CATALOGUE)
def test_forward_and_gradients(name, mode):
    here, there = on("cpu", name, mode), on("cuda", name, mode)
    batch = example(mode)
    outputs = here(*batch), there(*(tokens.cuda() for tokens in batch))
    for output in outputs:
        direction_loss(output).backward()
    torch.testing.assert_close(outputs[1].cpu(), outputs[0], rtol=1e-10, atol=1e-10)
    for (key, a), (_, b) in zip(here.named_parameters(), there.named_parameters(), strict=True):
        torch.testing.assert_close(
            b.grad.cpu(), a.grad, rtol=1e-9, atol=1e-10, msg=lambda text, key=key: f"{key}: {text}"
        )


@pytest.mark.parametrize("name", ["pre_ln", "dlcl", "hyper_connections"])
def test_generation(name):
    prompts = [[1, 2, 3], [4], [5, 6, 7, 8]]
    for search in (None, Beam(width=3)):
        here, there = (
            on(device, name, "decoder").generate(prompts, max_new=12, search=search) for device in ("cpu", "cuda")
        )
        assert torch.equal(here.tokens, there.tokens.cpu())


@pytest.mark.parametrize("mode", ["encoder", "decoder", "encoder_decoder"])
def test_half_precision_and_padding(mode):
    model = build("pre_ln", mode=mode, **SIZES, device="cuda")
    batch = [tokens.cuda() for tokens in example(mode)]
    real = torch.ones_like(batch[0], dtype=torch.bool)
    real[1] = False
    with torch.autocast("cuda", torch.bfloat16):
        output = model(*batch, *[real for _ in batch])
    assert torch.isfinite(output).all()
