"""nn.Transformer is our encoder-decoder, weight for weight, but for the norms it adds to a Post-LN stack."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from addnorm.models.encoder_decoder import EncoderDecoder
from tests.peers.ties import assert_same_gradients
from tests.peers.torch_pairs import (
    PADDINGS,
    draw_tokens,
    embed,
    hidden_from,
    projected,
    real_rows,
    triangle,
    two_stacks,
)
from tests.tolerances import assert_close

SOURCE_LENGTH, TARGET_LENGTH = 6, 4

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")

every_form = pytest.mark.parametrize("norm_first", [True, False], ids=["pre", "post"])
every_activation = pytest.mark.parametrize("activation", ["relu", "gelu"])
every_padding = pytest.mark.parametrize("padding", PADDINGS)
every_mode = pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])


def of_peer(ours: EncoderDecoder, peer: nn.Transformer, batch: tuple[Tensor, ...]) -> Tensor:
    source, target, source_real, target_real = batch
    return peer(
        embed(ours, source).detach(),
        embed(ours, target).detach(),
        tgt_mask=triangle(TARGET_LENGTH),
        tgt_is_causal=True,
        src_key_padding_mask=hidden_from(source_real),
        tgt_key_padding_mask=hidden_from(target_real),
        memory_key_padding_mask=hidden_from(source_real),
    )


def of_ours(ours: EncoderDecoder, peer: nn.Transformer, batch: tuple[Tensor, ...]) -> Tensor:
    """nn.Transformer ends both stacks with a norm even where each block ended with one: two in a row.

    The paper's Post-LN, and ours, has one; the peer's second is put on by hand here.
    """
    source, target, source_real, target_real = batch
    if peer.encoder.layers[0].norm_first:
        return ours(source, target, source_real, target_real)
    memory = peer.encoder.norm(ours.encode(source, source_real))
    return peer.decoder.norm(ours.decode(target, memory, source_real, target_real))


def draw_batch(padding: str) -> tuple[Tensor, ...]:
    real = PADDINGS[padding]
    target_real = None if real is None else real[:, :TARGET_LENGTH]
    return draw_tokens(1, SOURCE_LENGTH), draw_tokens(2, TARGET_LENGTH), real, target_real


@every_form
@every_activation
@every_padding
@every_mode
def test_the_same_output(norm_first: bool, activation: str, padding: str, training: bool) -> None:
    ours, peer, _ = two_stacks(norm_first, activation)
    ours.train(training), peer.train(training)
    batch = draw_batch(padding)
    with torch.no_grad():
        wanted, came = of_peer(ours, peer, batch), of_ours(ours, peer, batch)
    assert_close(real_rows(came, batch[3]), real_rows(wanted, batch[3]))


@every_form
@every_activation
@every_padding
def test_the_same_gradients(norm_first: bool, activation: str, padding: str) -> None:
    ours, peer, ties = two_stacks(norm_first, activation)
    batch = draw_batch(padding)
    projected(real_rows(of_peer(ours, peer, batch), batch[3])).backward()
    projected(real_rows(of_ours(ours, peer, batch), batch[3])).backward()
    assert_same_gradients(ties)


def test_the_peers_second_norm_is_no_identity() -> None:
    """Were it one, the hand-work above would prove nothing."""
    ours, peer, _ = two_stacks(norm_first=False, activation="relu")
    batch = draw_batch("all_real")
    with torch.no_grad():
        gap = (of_peer(ours, peer, batch) - ours(*batch)).abs().max()
    assert gap > 0.1
