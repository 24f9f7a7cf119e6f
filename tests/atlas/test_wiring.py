"""A design's wiring, found by running it: what is in the real modules is in the graph, and nothing else."""

import pytest
import torch
from torch import Tensor, nn

from addnorm.arrangements import (
    B2T,
    CATALOGUE,
    DLCL,
    Admin,
    Arrangement,
    ByLayer,
    Connection,
    DeepNorm,
    HyperConnections,
    PostLN,
    PreLN,
    ResiDual,
    Site,
    TwoResidual,
)
from addnorm.atlas.graph import Span, Wiring
from addnorm.atlas.wiring import trace, trace_plan
from addnorm.layers.norms import NormModule, RMSNorm
from addnorm.models.build import make_spec
from addnorm.models.stack import Stack
from addnorm.spec import SpecError

MODES = ("encoder", "decoder", "encoder_decoder")
SIZES = {"depth": 6, "width": 32, "heads": 4}


def labels(wiring: Wiring, *kinds: str) -> list[str]:
    return [node.label for node in wiring.nodes if not kinds or node.kind in kinds]


def norms_of_the_real_stack(design: Arrangement, mode: str, wiring: Wiring) -> int:
    with torch.device("meta"):
        stack = Stack(make_spec(design, mode=mode, **SIZES).plans()[wiring.side])
    drawn = [stack.blocks[span.first].connections for span in wiring.spans]
    ends = [end for end in (stack.open, stack.close) if isinstance(end, nn.Module)]
    return sum(isinstance(module, NormModule) for part in (*drawn, *ends) for module in part.modules())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CATALOGUE)
def test_every_sublayer_and_every_norm_of_the_real_block_is_there(name, mode):
    wiring = trace(CATALOGUE[name], mode, **SIZES)
    spoken = ["self-attention", "feed-forward"]
    if mode == "encoder_decoder":
        spoken.insert(1, "cross-attention")
    assert labels(wiring, "sublayer") == spoken * len(wiring.spans)
    assert len(labels(wiring, "norm")) == norms_of_the_real_stack(CATALOGUE[name], mode, wiring)


@pytest.mark.parametrize("layer", [0, 3, 5])
@pytest.mark.parametrize("name", CATALOGUE)
def test_nodes_are_in_order_and_nothing_is_loose(name, layer):
    wiring = trace(CATALOGUE[name], **SIZES, layer=layer)
    seen: set[int] = set()
    for node in wiring.nodes:
        assert seen.issuperset(node.inputs)
        assert bool(node.inputs) == (node.kind != "input")
        seen.add(node.key)
    used = {key for node in wiring.nodes for key in node.inputs}
    assert seen - used == {wiring.nodes[-1].key}
    assert wiring.nodes[-1].kind == "output"


def test_paths_are_those_of_the_real_modules():
    wiring = trace(PreLN(), **SIZES)
    with torch.device("meta"):
        stack = Stack(make_spec(PreLN(), mode="encoder", **SIZES).plans()["encoder"])
    for node in wiring.nodes:
        if node.kind == "norm":
            path = node.path if node.layer is None else f"blocks.{node.layer}.{node.path}"
            assert isinstance(stack.get_submodule(path), NormModule)
    assert [(node.path, node.place) for node in wiring.nodes if node.kind == "norm"] == [
        ("connections.self_attention.before", "before"),
        ("connections.feed_forward.before", "before"),
        ("close", "close"),
    ]


def test_post_and_pre_are_wired_differently():
    assert trace(PostLN(), **SIZES).nodes != trace(PreLN(), **SIZES).nodes


def test_the_constants_are_those_of_the_asked_depth():
    assert "× 1.86" in labels(trace(DeepNorm(), depth=6))
    assert "× 2.45" in labels(trace(DeepNorm(), depth=18))  # (2 * 18) ** 0.25
    assert "× 2.71" in labels(trace(DeepNorm(), "encoder_decoder", depth=18))  # (3 * 18) ** 0.25
    assert "× 2" in labels(trace(DeepNorm(), "encoder_decoder", depth=18, side="encoder"))


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("rezero", "× α (born 0)"),
        ("admin", "× ω (per feature)"),
        ("scaled", "× 0.9"),
        ("gated", "g y + (1 − g) x"),
        ("gated", "gate"),
        ("concat", "W [x ; y]"),
        ("two_residual", "relu"),
        ("dlcl", "Σ W_k y_k"),
        ("hyper_connections", "copy to 4 lanes"),
        ("hyper_connections", "read from lanes"),
        ("hyper_connections", "mix lanes"),
        ("hyper_connections", "write to lanes"),
        ("hyper_connections", "sum of lanes"),
    ],
)
def test_labels_are_for_people(name, label):
    assert label in labels(trace(CATALOGUE[name], **SIZES))


def test_a_profile_by_count_says_how_omega_is_born():
    assert "× ω (per feature, born 3.46)" in labels(trace(Admin(profile={"kind": "by_count", "growth": "constant"})))


def test_a_guard_of_one_and_a_sum_with_nothing_disappear():
    assert labels(trace(ResiDual(), **SIZES), "scale") == []
    assert labels(trace(ResiDual(guard=0.05), **SIZES), "scale") == ["× 0.05"] * 3
    assert labels(trace(TwoResidual(), **SIZES), "add") == ["+"]


def test_a_sum_of_three_is_one_node():
    wiring = trace(B2T(), **SIZES)
    assert [len(node.inputs) for node in wiring.nodes if node.kind == "add"] == [2, 3]


def test_the_lanes_of_a_stream_are_counted():
    wiring = trace(HyperConnections(lanes=3), **SIZES)
    assert {node.lanes for node in wiring.nodes} == {0, 1, 3}  # 0: the mixing weights


def test_blocks_wired_differently_are_all_drawn():
    assert trace(PreLN(), **SIZES).spans == (Span(0, 5),)
    assert trace(ByLayer(), depth=12).spans == (Span(0, 2), Span(3, 11))
    assert trace(ByLayer(), depth=12, layer=4).spans == (Span(4, 11),)
    assert trace(PreLN(first_norm="no_norm"), **SIZES).spans == (Span(0, 0), Span(1, 5))
    assert trace(DLCL(), **SIZES).spans == (Span(0, 0), Span(1, 1))  # each block recalls one more


def test_a_later_block_begins_with_the_stream_that_enters_it():
    assert labels(trace(ResiDual(), **SIZES, layer=3), "input") == ["post", "plain"]
    assert labels(trace(DLCL(), **SIZES, layer=1), "input") == ["past 0", "past 1"]
    assert labels(trace(DLCL(), **SIZES, layer=5), "input") == ["past 0 … past 5"]  # too many to draw one by one
    assert labels(trace(HyperConnections(), **SIZES, layer=2), "input") == ["x (4 lanes)"]


def test_another_norm_is_still_a_norm():
    assert trace(PreLN(norm=RMSNorm()), **SIZES).nodes == trace(PreLN(), **SIZES).nodes


def test_a_plan_of_any_model_can_be_drawn():
    assert labels(trace_plan(make_spec("gpt2", depth=2).plans()["decoder"]), "norm") == ["norm"] * 3


@pytest.mark.parametrize("layer", [-1, 6])
def test_a_layer_that_is_not_there_is_refused(layer):
    with pytest.raises(SpecError, match="wanted a layer from 0 to 5"):
        trace(PreLN(), **SIZES, layer=layer)


def test_a_side_that_is_not_there_is_refused():
    with pytest.raises(SpecError, match="has encoder alone"):
        trace(PreLN(), "encoder", **SIZES, side="decoder")


def test_the_callers_state_is_left_alone():
    random = torch.get_rng_state()
    trace(PreLN(), **SIZES)
    assert torch.equal(torch.get_rng_state(), random)
    assert torch.empty(1).device.type == "cpu"
    assert torch.is_grad_enabled()


# -- somebody else's designs: no line of code about them anywhere ---------------------------------------------


class Momentum(Arrangement, kind="atlas_test_momentum"):
    """A second stream that starts at zero, is scaled by a constant, and is added to the first."""

    def form(self) -> str:
        return "(x, momentum)"

    def open(self, site: Site):
        return lambda x: (x, torch.zeros_like(x))

    def connect(self, site: Site) -> Connection:
        return MomentumConnection(site.width)

    def close(self, site: Site):
        return lambda stream: stream[0]


class MomentumConnection(Connection):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.ahead = nn.LayerNorm(width)  # torch's own
        self.dropout = nn.Dropout(0.1)

    def read(self, stream):
        return self.ahead(stream[0]), stream

    def write(self, stream, y):
        x, momentum = stream
        momentum = momentum * 0.9 + self.dropout(y)
        return x.float() + momentum, momentum


def test_a_second_stream_and_torchs_own_norm():
    assert labels(trace(Momentum(), **SIZES)) == [
        *("x", "norm", "self-attention", "+"),
        *("norm", "feed-forward", "× 0.9", "+", "y"),
    ]
    assert labels(trace(Momentum(), **SIZES, layer=2))[:2] == ["x", "momentum"]


class Gru(Arrangement, kind="atlas_test_gru"):
    def connect(self, site: Site) -> Connection:
        return GruConnection(site.width)


class GruConnection(Connection):
    """Everything in the open: a matrix, a sigmoid, a function of three values."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.project = nn.Linear(width, width)

    def read(self, stream):
        if stream.dim() != 3 or len(stream) == 0:  # ordinary Python around the values
            raise ValueError
        return stream, stream

    def write(self, stream, y):
        return torch.lerp(stream, y, torch.sigmoid(self.project(stream)))


def test_a_formula_is_the_label_where_it_is_short():
    assert labels(trace(Gru(), **SIZES), "mix") == ["W x + b", "lerp(x, y, sigmoid(x′))"] * 2


class Sinkhorn(Arrangement, kind="atlas_test_sinkhorn"):
    def open(self, site: Site):
        return lambda x: torch.stack([x] * 2, dim=2)

    def connect(self, site: Site) -> Connection:
        return SinkhornConnection(site.width)

    def close(self, site: Site):
        return lambda lanes: lanes.mean(dim=2)


class SinkhornConnection(Connection):
    """Weights in which every step is used twice by the next: their formula would have a million letters."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(2, 2))
        self.by_input = nn.Parameter(torch.empty(width, 2))

    def read(self, stream: Tensor):
        weights = (self.weight + stream @ self.by_input).exp()
        for _ in range(20):
            weights = weights / weights.sum(dim=-1, keepdim=True)
            weights = weights / weights.sum(dim=-2, keepdim=True)
        return stream[:, :, 0], weights @ stream

    def write(self, stream: Tensor, y: Tensor):
        return stream + y.unsqueeze(2)


def test_a_doubly_stochastic_mixing_of_lanes():
    assert labels(trace(Sinkhorn(), **SIZES)) == [
        "x",
        "copy to 2 lanes",
        *("read from lanes", "mix lanes", "self-attention", "write to lanes"),
        *("read from lanes", "mix lanes", "feed-forward", "write to lanes"),
        "mean of lanes",
        "y",
    ]


class Forgetting(Arrangement, kind="atlas_test_forgetting"):
    def connect(self, site: Site) -> Connection:
        return MomentumConnection(site.width)

    def open(self, site: Site):
        return lambda x: (x, torch.zeros_like(x))

    def close(self, site: Site):
        return lambda stream: torch.zeros(1)


def test_a_stack_that_forgets_its_input_is_refused():
    with pytest.raises(SpecError, match="atlas_test_forgetting: wanted a stack that gives one tensor"):
        trace(Forgetting(), **SIZES)
