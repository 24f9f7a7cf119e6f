"""Drawings as SVG: well-formed, complete, safe to put into a page, and nothing lies on anything else."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from addnorm.arrangements import CATALOGUE, PostLN, PreLN
from addnorm.atlas.svg import draw
from addnorm.atlas.wiring import trace

NAMESPACE = "{http://www.w3.org/2000/svg}"


def picture(name: str, **options) -> ET.Element:
    return ET.fromstring(draw(trace(CATALOGUE[name], **options), name, "x <- F(x);  out = x"))


def texts(root: ET.Element, kind: str) -> list[str]:
    return [text.text or "" for text in root.iter(f"{NAMESPACE}text") if text.get("class") == kind]


def boxes(root: ET.Element) -> list[tuple[float, float, float, float]]:
    found = []
    for shape in root.iter():
        if shape.get("class") != "box":
            continue
        number = {key: float(value) for key, value in shape.attrib.items() if key != "class"}
        if shape.tag == f"{NAMESPACE}rect":
            found.append((number["x"], number["y"], number["x"] + number["width"], number["y"] + number["height"]))
        else:
            x, y, r = number["cx"], number["cy"], number["r"]
            found.append((x - r, y - r, x + r, y + r))
    return found


def overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] - 1 and b[0] < a[2] - 1 and a[1] < b[3] - 1 and b[1] < a[3] - 1


@pytest.mark.parametrize("mode", ["encoder", "encoder_decoder"])
@pytest.mark.parametrize("name", CATALOGUE)
def test_every_node_is_there(name, mode):
    wiring, root = trace(CATALOGUE[name], mode), picture(name, mode=mode)
    wanted = sorted(node.label for node in wiring.nodes if node.kind != "add")
    assert sorted(texts(root, "label")) == wanted
    for kind in ("norm", "add", "gate", "mix", "scale"):
        assert sum(group.get("class") == kind for group in root.iter()) == sum(n.kind == kind for n in wiring.nodes)
    assert sum("sublayer" in group.get("class", "") for group in root.iter()) == sum(
        node.kind == "sublayer" for node in wiring.nodes
    )


@pytest.mark.parametrize("layer", [0, 4])
@pytest.mark.parametrize("name", CATALOGUE)
def test_nothing_lies_on_anything_else(name, layer):
    root = picture(name, layer=layer)
    found = boxes(root)
    for number, box in enumerate(found):
        assert not any(overlap(box, other) for other in found[number + 1 :])
    for path in root.iter(f"{NAMESPACE}path"):
        straight = re.fullmatch(r"M([\d.]+) ([\d.]+)V([\d.]+)", path.get("d", ""))
        if straight and path.get("class", "").split()[0] in ("line", "thick"):
            x, start, end = map(float, straight.groups())
            line = (x - 2, min(start, end), x + 2, max(start, end))
            assert not any(overlap(line, box) for box in found)


@pytest.mark.parametrize("name", CATALOGUE)
def test_everything_is_inside_the_paper(name):
    root = picture(name)
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    for left, top, right, bottom in boxes(root):
        assert 0 < left < right < width
        assert 0 < top < bottom < height
    for text in root.iter(f"{NAMESPACE}text"):
        assert 0 < float(text.get("x", 0)) < width
        assert 0 < float(text.get("y", 0)) < height


def test_two_designs_have_two_pictures():
    assert draw(trace(PostLN()), "", "") != draw(trace(PreLN()), "", "")


def test_it_can_be_read_aloud():
    root = picture("pre_ln")
    assert root.get("role") == "img"
    assert root[0].tag == f"{NAMESPACE}title"
    assert root[0].text == "pre_ln"
    assert root[1].tag == f"{NAMESPACE}desc"
    assert "norm (before), self-attention, +" in (root[1].text or "")


def test_title_and_formula_stand_at_the_top():
    root = picture("pre_ln")
    assert texts(root, "title") == ["pre_ln"]
    assert texts(root, "formula") == ["x ← F(x)", "out = x"]


def test_a_semicolon_inside_a_clause_parts_nothing():
    root = ET.fromstring(draw(trace(PreLN()), "concat", "x <- W [x ; F(x)];  out = norm(x)"))
    assert texts(root, "formula") == ["x ← W [x ; F(x)]", "out = norm(x)"]


def test_foreign_text_stays_text():
    wiring = trace(PreLN())
    evil = "<script>alert('x')</script> & \"co\""
    nodes = tuple(replace(node, label=evil, path=evil) if node.kind == "norm" else node for node in wiring.nodes)
    svg = draw(replace(wiring, nodes=nodes), evil, evil)
    root = ET.fromstring(svg)
    assert "<script" not in svg
    assert evil in texts(root, "label")
    assert root[0].text == evil


def test_it_needs_nothing_from_outside():
    svg = draw(trace(PreLN()), "", "")
    assert "url(" not in svg
    assert "@import" not in svg
    assert set(re.findall(r"https?://[^\s\"]+", svg)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r'\sid="', svg)  # several pictures can stand in one page


def test_dark_screens_are_thought_of():
    assert "prefers-color-scheme:dark" in draw(trace(PreLN()), "", "")
