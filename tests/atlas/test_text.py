"""Drawings for the terminal."""

from itertools import pairwise

import pytest

from addnorm.arrangements import B2T, CATALOGUE, DLCL, HyperConnections, PostLN, PreLN, ResiDual, TwoResidual
from addnorm.atlas.text import draw
from addnorm.atlas.wiring import trace

PICTURES = {
    PreLN(): """
 x
 ├─╮
 │ ● norm                 before
 │ ■ self-attention
 ├─╯ +
 ├─╮
 │ ● norm                 before
 │ ■ feed-forward
 ├─╯ +
 ● norm                   close
 y
""",
    PostLN(): """
 x
 ├─╮
 │ ■ self-attention
 ├─╯ +
 ● norm                   after
 ├─╮
 │ ■ feed-forward
 ├─╯ +
 ● norm                   after
 y
""",
    B2T(): """
 x
 ├─┬─╮
 │ ■ │ self-attention
 ├─╯ │ +
 ●   │ norm               after
 ├─╮ │
 │ ■ │ feed-forward
 ├─┴─╯ +
 ● norm                   after
 y
""",
    TwoResidual(): """
 x
 ├─╮
 │ ■ self-attention
 │ ○ relu
 │ ├─╮
 │ │ ■ feed-forward
 ├─┴─╯ +
 ○ relu
 y
""",
    ResiDual(): """
 x
 ├─┬─╮
 │ ■ │ self-attention
 ⊕─┤ │ +
 ● │ │ norm               after
 │ ╰─┤ +
 ├─╮ │
 │ ■ │ feed-forward
 ⊕─┤ │ +
 ● │ │ norm               after
 │ ╰─┤ +
 │   ● norm               close
 ├───╯ +                  close
 y
""",
    HyperConnections(): """
 x
 ◆ copy to 4 lanes        open
 ╟───╖
 ║   ● norm               mixing
 ║   ◆ mixing weights     mixing
 ╟─◆─┤ read from lanes
 ║ ● │ norm               before
 ◆─│─┤ mix lanes
 ║ ■ │ self-attention
 ◆─┴─╯ write to lanes
 ╟───╖
 ║   ● norm               mixing
 ║   ◆ mixing weights     mixing
 ╟─◆─┤ read from lanes
 ║ ● │ norm               before
 ◆─│─┤ mix lanes
 ║ ■ │ feed-forward
 ◆─┴─╯ write to lanes
 ◆ sum of lanes           close
 ● norm                   close
 y
""",
    DLCL(): """
 x
 │  block 1
 ├───╮
 ◇   │ × W_0              recall
 ├─╮ │
 │ ● │ norm               before
 │ ■ │ self-attention
 ├─╯ │ +
 ├─╮ │
 │ ● │ norm               before
 │ ■ │ feed-forward
 ├─╯ │ +
 ●   │ norm               remember
 │   │  block 2
 ├───│─╮
 ◆───┤ │ Σ W_k y_k        recall
 ├─╮ │ │
 │ ● │ │ norm             before
 │ ■ │ │ self-attention
 ├─╯ │ │ +
 ├─╮ │ │
 │ ● │ │ norm             before
 │ ■ │ │ feed-forward
 ├─╯ │ │ +
 ●   │ │ norm             remember
 ┊   ┊ ┊  blocks 3 to 6 likewise
 ◆───┴─╯ Σ W_k y_k        close
 ● norm                   close
 y
""",
}


@pytest.mark.parametrize("design", PICTURES, ids=lambda design: design.kind)
def test_the_picture_is_exactly_this(design):
    assert draw(trace(design)) == PICTURES[design].strip("\n")


@pytest.mark.parametrize("mode", ["encoder", "decoder", "encoder_decoder"])
@pytest.mark.parametrize("name", CATALOGUE)
def test_every_design_is_drawn_within_seventy_columns(name, mode):
    wiring = trace(CATALOGUE[name], mode)
    picture = draw(wiring)
    assert max(map(len, picture.splitlines())) <= 70
    for kind, sign in (("norm", "●"), ("sublayer", "■")):
        assert picture.count(sign) == sum(node.kind == kind for node in wiring.nodes)
    for node in wiring.nodes:
        assert node.label in picture


@pytest.mark.parametrize("layer", [0, 1, 2, 5])
@pytest.mark.parametrize("name", CATALOGUE)
def test_every_lane_that_enters_a_line_left_the_line_above(name, layer):
    """Seen as a person sees it: below each character with a line downwards stands one with a line upwards."""
    down, up = set("╷│╮┤╭├┬┼║╖╢╓╟╥╫┊"), set("╵│╯┤╰├┴┼║╜╢╙╟╨╫┊")
    signs = set("●■◇◐◆○⊕⊖")
    lines = [line[1:40:2] for line in draw(trace(CATALOGUE[name], layer=layer)).splitlines()][1:-1]
    wide = max(map(len, lines))
    for above, below in pairwise(lines):
        for over, under in zip(above.ljust(wide), below.ljust(wide), strict=True):
            if over in down:
                assert under in up | signs or under.isalnum()
            if under in up:
                assert over in down | signs or over.isalnum()


@pytest.mark.parametrize("name", CATALOGUE)
def test_plain_ascii(name):
    picture = draw(trace(CATALOGUE[name]), ascii_only=True)
    assert picture.isascii()
    assert "?" not in picture


def test_plain_ascii_is_the_same_picture():
    assert draw(trace(PreLN()), ascii_only=True).splitlines()[:5] == [
        " x",
        " +-.",
        " | o norm                 before",
        " | # self-attention",
        " +-' +",
    ]
