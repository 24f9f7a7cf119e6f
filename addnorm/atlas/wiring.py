"""Wiring: what a design's block does to its values, found by running it and never drawn by hand.

design -> the real open, connections and close, on the meta device, with stand-ins for the sub-layers   (sketch)
       -> every operation on a value that came from the input, with the module that asked for it     (recording)
       -> few, readable nodes                                                                          (folding)
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from addnorm.arrangements.base import Arrangement, Side
from addnorm.atlas.folding import Fold
from addnorm.atlas.graph import Node, Span, Wiring
from addnorm.atlas.recording import Recorder, lanes_of, leaves, named
from addnorm.atlas.sketch import BATCH, LENGTH, Sketch, StandIn
from addnorm.models.block import Block
from addnorm.models.build import Mode, make_spec
from addnorm.models.stack import Plan, kind_of
from addnorm.spec import SpecError

DRAWN_KINDS = 2  # a picture of more blocks than this is no longer small


def trace(
    design: Arrangement,
    mode: Mode = "encoder",
    depth: int = 6,
    width: int = 512,
    heads: int = 8,
    layer: int = 0,
    side: Side | None = None,
) -> Wiring:
    """The wiring of a design in a model of that mode and size; constants are those of that depth.

    layer   the block to draw. Where a later block is wired differently (Mix-LN, DLCL), the first such one is drawn too.
    side    of an encoder-decoder; the decoder, with its three sub-layers, unless asked otherwise
    """
    plans = make_spec(design, mode=mode, depth=depth, width=width, heads=heads).plans()
    chosen = side or ("decoder" if "decoder" in plans else "encoder")
    if chosen not in plans:
        raise SpecError(f"wanted the {chosen} of a model of mode {mode}, which has {', '.join(plans)} alone")
    return trace_plan(plans[chosen], layer)


def trace_plan(plan: Plan, layer: int = 0) -> Wiring:
    """The wiring of one stack of a model: `trace_plan(spec.plans()["encoder"])`."""
    if not 0 <= layer < plan.depth:
        raise SpecError(f"wanted a layer from 0 to {plan.depth - 1}, came {layer}; blocks are counted from 0")
    with torch.no_grad(), torch.device("meta"):
        stream, spans = survey(plan, layer)
        inputs = named(stream, plan.design.form())
        ends: dict[str, Callable[[Any], Any]] = {"close": plan.design.close(plan.site("close", plan.depth))}
        if layer == 0:
            stream = torch.empty(BATCH, LENGTH, plan.width)
            inputs = {"x": stream}
            ends["open"] = plan.design.open(plan.site("open", 0))
        blocks = {span.first: block_of(plan, span.first) for span in spans}
        nodes, result = record(Sketch(blocks, ends), inputs, stream)
    if nodes[-1].kind != "output":
        came = f"{type(result).__name__} that does not depend on its input"
        raise SpecError(f"{plan.design.kind}: wanted a stack that gives one tensor made from its input, came a {came}")
    return Wiring(bundled(needed(nodes)), spans, plan.depth, plan.side)


def block_of(plan: Plan, layer: int) -> Block:
    sites = {name: plan.site(kind_of(name), layer, slot) for slot, name in enumerate(plan.contents)}
    connections = {name: plan.design.connect(site) for name, site in sites.items()}
    return Block(sites, {name: StandIn() for name in sites}, connections)


def survey(plan: Plan, layer: int) -> tuple[Any, tuple[Span, ...]]:
    """The stream that enters that layer, and the kinds of block from there on."""
    stream: Any = plan.design.open(plan.site("open", 0))(torch.empty(BATCH, LENGTH, plan.width))
    for number in range(layer):
        stream = block_of(plan, number)(stream, None)
    incoming, looks = stream, None
    spans: list[Span] = []
    for number in range(layer, plan.depth):
        nodes, stream = record(Sketch({number: block_of(plan, number)}, {}), named(stream, plan.design.form()), stream)
        look = signature(nodes)
        if look == looks:
            spans[-1] = Span(spans[-1].first, number)
        elif len(spans) == DRAWN_KINDS:
            break
        else:
            spans.append(Span(number, number))
            looks = look
    return incoming, tuple(spans)


def signature(nodes: list[Node]) -> tuple[Any, ...]:
    """Equal for blocks wired alike. Constants may differ: a scale that grows with depth is still the same wiring."""
    return tuple((node.kind, re.sub(r"\d[\d.e+-]*", "#", node.label), node.inputs, node.path) for node in nodes)


def record(root: nn.Module, inputs: dict[str, Tensor], stream: Any) -> tuple[list[Node], Any]:
    """The nodes of root(stream), and what it gave; inputs are the stream's tensors by name."""
    recorder = Recorder(root, width=next(iter(inputs.values())).shape[-1])
    for name, tensor in inputs.items():
        recorder.alive.append(tensor)
        recorder.values[id(tensor)] = recorder.add(name, (), lanes_of(tensor, recorder.width))
    with recorder:
        result = root(stream)
    outputs = [recorder.values[id(tensor)] for tensor in leaves(result) if id(tensor) in recorder.values]
    return Fold(recorder.steps, outputs, len(inputs)).nodes, result


def needed(nodes: list[Node]) -> list[Node]:
    """What the output depends on."""
    used = {nodes[-1].key}
    for node in reversed(nodes):
        if node.key in used:
            used.update(node.inputs)
    return [node for node in nodes if node.key in used]


def bundled(nodes: list[Node]) -> tuple[Node, ...]:
    """Many inputs that go the same ways, the past of a deep layer, are drawn as one thick lane."""
    alike: dict[tuple[int, ...], list[Node]] = defaultdict(list)
    for node in nodes:
        if node.kind == "input":
            alike[tuple(user.key for user in nodes if node.key in user.inputs)].append(node)
    for group in alike.values():
        if len(group) > 2:
            first, *rest = group
            gone = {node.key for node in rest}
            label = f"{first.label} … {rest[-1].label}"
            bundle = replace(first, label=label, lanes=len(group))
            kept = [bundle if node is first else node for node in nodes if node.key not in gone]
            nodes = [replace(node, inputs=tuple(key for key in node.inputs if key not in gone)) for node in kept]
    return tuple(nodes)
