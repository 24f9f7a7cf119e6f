"""What a block is filled with: side by side, one after the other, taking turns."""

import pytest
import torch

from addnorm.layers.attention import Attention
from addnorm.layers.feed_forward import FeedForward, GatedFeedForward
from addnorm.layers.layouts import AttentionOnly, OneByOne, SideBySide
from addnorm.layers.masks import Mask
from addnorm.layers.parallel import Parallel
from addnorm.layers.sublayer import Repeating
from addnorm.models import DecoderSpec
from addnorm.spec import SpecError
from tests.layers.stage import BATCH, LENGTH, WIDTH, built, context, draw, seat
from tests.tolerances import assert_close

H = draw(BATCH, LENGTH, WIDTH, seed=3)
A, C, F = Attention(), Attention(window=2), FeedForward()
SIZES = {"vocab": 11, "width": 8, "heads": 2, "depth": 3}


# -- parallel ----------------------------------------------------------------------------------------------


def test_parallel_parts_read_one_input_and_are_summed():
    module = built(Parallel(parts=(A, F, GatedFeedForward())))
    assert_close(module(H, context()), sum(part(H, context()) for part in module.parts))


@pytest.mark.parametrize("parts", [(), (A,)])
def test_parallel_wants_two(parts):
    with pytest.raises(SpecError, match=f"wanted two or more sub-layers, came {len(parts)}"):
        Parallel(parts=parts)


def test_parallel_asks_for_every_window():
    assert Parallel(parts=(A, C, F)).windows() == {None, 2}


# -- layouts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "cross", "contents"),
    [
        (OneByOne(), None, {"self_attention": A, "feed_forward": F}),
        (OneByOne(), C, {"self_attention": A, "cross_attention": C, "feed_forward": F}),
        (AttentionOnly(), None, {"self_attention": A}),
        (AttentionOnly(), C, {"self_attention": A, "cross_attention": C}),
        (SideBySide(), None, {"parallel": Parallel(parts=(A, F))}),
    ],
    ids=["one by one", "one by one, crossed", "attention only", "attention only, crossed", "side by side"],
)
def test_layouts(layout, cross, contents):
    came = layout.contents(A, cross, F)
    assert list(came.items()) == list(contents.items())  # the order is the order in the block


def test_side_by_side_has_no_place_for_cross_attention():
    with pytest.raises(SpecError, match=r"side_by_side: no form with cross-attention.*use one_by_one"):
        SideBySide().contents(A, C, F)


# -- taking turns ------------------------------------------------------------------------------------------


def test_contents_take_turns_by_layer():
    turns = Repeating(pattern=(C, A, F))
    assert [turns.of_layer(layer) for layer in range(5)] == [C, A, F, C, A]
    assert turns.windows() == {2, None}


def test_an_empty_pattern_is_refused():
    with pytest.raises(SpecError, match="wanted at least one content in pattern, came none"):
        Repeating(pattern=())


def test_every_content_of_a_pattern_is_tried_on_its_seat():
    with pytest.raises(SpecError, match="kv_heads"):
        Repeating(pattern=(A, Attention(kv_heads=3))).check(seat())


def test_each_layer_has_its_own_window():
    """Windows 1, none, 1: a token sees others in the middle layer alone."""
    spec = DecoderSpec(attention=Repeating(pattern=(Attention(window=1), Attention())), **SIZES)
    model = spec.build()
    windows = [block.sublayers["self_attention"].spec.window for block in model.stack.blocks]
    assert windows == [1, None, 1]
    seen: list[Mask] = []
    for block in model.stack.blocks:
        block.sublayers["self_attention"].register_forward_pre_hook(
            lambda module, args: seen.append(args[1].masks[module.spec.window])
        )
    model(torch.tensor([[1, 2, 3]]))
    assert [mask.causal for mask in seen] == [False, True, False]
    assert torch.equal(seen[0].allowed[0, 0], torch.eye(3, dtype=torch.bool))
