"""Xiong et al. 2020, Lemma 2: how large the stream is at birth, in the theory's setting.

One head, uniform attention (query and key zero), Gaussian Xavier, a feed-forward as wide as the model, unit inputs.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from addnorm.models.build import build
from tests.papers.stacks import arguments_of, normal

D, DEPTH, ROWS, LENGTH, SEEDS = 128, 6, 8, 4, 12


def theory(design: str, seed: int):
    sizes = {"depth": DEPTH, "width": D, "heads": 1, "hidden": D, "vocab": 11}
    model = build(design, mode="encoder", init="xavier_normal", seed=seed, **sizes)
    with torch.no_grad():
        for block in model.stack.blocks:
            block.sublayers["self_attention"].query.weight.zero_()
            block.sublayers["self_attention"].key.weight.zero_()
    _, context = arguments_of(model, model.stack, (torch.zeros(ROWS, LENGTH, dtype=torch.long),))
    return model.stack, context, normal((ROWS, LENGTH, D), seed, torch.float32)


def mean_square(x: Tensor) -> float:
    """E |x|^2, in units of d."""
    return x.square().sum(dim=-1).mean().item() / D


@torch.no_grad()
def pre_ln_sizes(seed: int) -> list[float]:
    """After each layer."""
    stack, context, x = theory("pre_ln", seed)
    sizes = []
    for block in stack.blocks:
        x = block(x, context)
        sizes.append(mean_square(x))
    return sizes


@torch.no_grad()
def post_ln_sizes(seed: int) -> list[float]:
    """Before the last norm of each layer."""
    stack, context, x = theory("post_ln", seed)
    sizes: list[float] = []
    for block in stack.blocks:
        after = block.connections["feed_forward"].after
        after.register_forward_pre_hook(lambda module, args: sizes.append(mean_square(args[0])))
    stack(x, context)
    return sizes


def expected(sizes: Callable[[int], list[float]]) -> list[float]:
    """The mean over births: the rows of one model grow alike, and do not average out."""
    return torch.tensor([sizes(seed) for seed in range(SEEDS)]).mean(dim=0).tolist()


def test_the_pre_ln_stream_grows_linearly() -> None:
    """(1 + l/2) d <= E |x_l|^2 <= (1 + 3l/2) d after l layers."""
    for layer, size in enumerate(expected(pre_ln_sizes), start=1):
        assert 1 + layer / 2 <= size <= 1 + 3 * layer / 2


def test_the_post_ln_stream_is_equally_large_before_every_last_norm() -> None:
    """E |x|^2 = (3/2) d where the feed-forward has been added, in every layer."""
    assert expected(post_ln_sizes) == pytest.approx([1.5] * DEPTH, rel=0.06)
