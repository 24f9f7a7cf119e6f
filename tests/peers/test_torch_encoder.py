"""nn.TransformerEncoder and nn.TransformerEncoderLayer are our stack and our block, weight for weight."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from addnorm.layers.context import Context
from addnorm.layers.masks import Causal, FullyVisible, make_masks
from tests.peers.ties import assert_same_gradients, copy_from_peer, redraw
from tests.peers.torch_pairs import (
    LENGTH,
    PADDINGS,
    draw_tokens,
    embed,
    hidden_from,
    one_stack,
    our_model,
    peer_layer,
    projected,
    real_rows,
    triangle,
)
from tests.peers.torch_ties import tie_layer
from tests.tolerances import assert_close

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")

every_form = pytest.mark.parametrize("norm_first", [True, False], ids=["pre", "post"])
every_activation = pytest.mark.parametrize("activation", ["relu", "gelu"])
every_mask = pytest.mark.parametrize("causal", [True, False], ids=["causal", "visible"])
every_padding = pytest.mark.parametrize("padding", PADDINGS)
every_mode = pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])


def of_peer(peer: nn.Module, x: Tensor, padding: Tensor | None, causal: bool) -> Tensor:
    """The stack calls its mask `mask`, the layer `src_mask`; both come second."""
    shown = triangle(x.shape[1]) if causal else None
    return peer(x, shown, src_key_padding_mask=hidden_from(padding), is_causal=causal)


@pytest.fixture
def fast_layers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one entry whenever torch goes through a layer by its fast path."""
    seen: list[int] = []
    fused = torch._transformer_encoder_layer_fwd

    def spy(*args: object, **named: object) -> Tensor:
        seen.append(1)
        return fused(*args, **named)

    monkeypatch.setattr(torch, "_transformer_encoder_layer_fwd", spy)
    return seen


@every_form
@every_activation
@every_mask
@every_padding
@every_mode
def test_the_stack_gives_the_same_output(
    norm_first: bool, activation: str, causal: bool, padding: str, training: bool, fast_layers: list[int]
) -> None:
    ours, peer, _ = one_stack(norm_first, activation, causal)
    ours.train(training), peer.train(training)
    tokens, real = draw_tokens(), PADDINGS[padding]
    with torch.no_grad():
        wanted = of_peer(peer, embed(ours, tokens), real, causal)
        came = ours(tokens, real)
    assert_close(real_rows(came, real), real_rows(wanted, real))
    assert len(fast_layers) == (0 if training else len(peer.layers)), "the fast path was to be compared in eval mode"


@every_form
@every_activation
@every_mask
@every_padding
def test_the_stack_gives_the_same_gradients(norm_first: bool, activation: str, causal: bool, padding: str) -> None:
    ours, peer, ties = one_stack(norm_first, activation, causal)
    tokens, real = draw_tokens(), PADDINGS[padding]
    x = embed(ours, tokens).detach()
    projected(real_rows(of_peer(peer, x, real, causal), real)).backward()
    projected(real_rows(ours(tokens, real), real)).backward()
    assert_same_gradients(ties)


@every_form
@every_activation
@every_mask
@every_padding
@every_mode
def test_the_block_is_the_layer(norm_first: bool, activation: str, causal: bool, padding: str, training: bool) -> None:
    block = our_model("encoder", norm_first, activation, depth=1).stack.blocks[0].train(training)
    layer = peer_layer(norm_first, activation).train(training)
    redraw(layer, seed=4)
    copy_from_peer(tie_layer(block, layer), block, layer)
    x = torch.randn(3, LENGTH, 16, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    positions, real = torch.arange(LENGTH)[None], PADDINGS[padding]
    rule = Causal() if causal else FullyVisible()
    masks = make_masks(rule, [None], positions, positions, real, None, fresh=True)
    with torch.no_grad():
        wanted = of_peer(layer, x, real, causal)
        came = block(x, Context(positions, masks))
    assert_close(real_rows(came, real), real_rows(wanted, real))
