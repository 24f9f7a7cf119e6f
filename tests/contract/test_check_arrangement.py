"""The contract finds what it says it finds: each sabotaged design fails, and fails where it should."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

import addnorm
from addnorm.arrangements import Arrangement, Connection, Local, Site
from addnorm.contract import CHECKS, ContractError, check_arrangement
from addnorm.layers.norms import LayerNorm
from addnorm.layers.part import Part


class Halved(Arrangement, kind="test_halved"):
    """Somebody else's design, honest."""

    def connect(self, site: Site) -> Connection:
        return Local(before=LayerNorm().build(site.width), branch=half)


def half(y: Tensor) -> Tensor:
    return y / 2


def test_an_honest_design_of_somebody_elses_passes_every_check():
    assert check_arrangement(Halved()) == 3 * len(CHECKS)


def test_a_catalogue_name_will_do():
    assert addnorm.check_arrangement("pre_ln", modes=["encoder"]) == len(CHECKS)


class Sabotaged(Connection):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = LayerNorm().build(width)

    def read(self, stream):
        return self.norm(stream), stream

    def write(self, stream, y):
        return stream + y


class MixesPositions(Sabotaged):
    def write(self, stream, y):
        return stream + y + 0.1 * y.mean(dim=1, keepdim=True)


class ForgetsANorm(Sabotaged):
    def read(self, stream):
        return stream, stream


class Remembers(Sabotaged):
    """Keeps a dropout mask between calls, as a module should not."""

    calls = 0

    def write(self, stream, y):
        self.calls += 1
        return stream + y * (1.0 if self.calls <= 1 else 0.5)


class Stashes(Sabotaged):
    def read(self, stream):
        self.stashed = stream
        return self.norm(stream), stream

    def write(self, stream, y):
        return self.stashed + y


class BreaksTheGraph(Sabotaged):
    def write(self, stream, y):
        return stream + y if float(y.detach().sum()) > -1e30 else stream


class ZeroDimensional(Sabotaged):
    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.scale = Scalar()

    def write(self, stream, y):
        return stream + self.scale(y)


class Scalar(Part):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, y):
        return y * self.weight

    def constants(self) -> Iterator[tuple[Tensor, float]]:
        yield self.weight, 1.0


class Privileged(Sabotaged):
    def write(self, stream, y):
        return stream + torch.relu(y)


class BlowsUpInBfloat16(Sabotaged):
    def write(self, stream, y):
        return stream + (y + 3e38) - 3e38


def design_with(connection: type[Connection]) -> Arrangement:
    class Design(Arrangement, kind=f"test_{connection.__name__}"):
        def connect(self, site: Site) -> Connection:
            return connection(site.width)

    return Design()


@pytest.mark.parametrize(
    ("connection", "check"),
    [
        (MixesPositions, "never_mixes_positions"),
        (MixesPositions, "decodes_from_a_cache_as_from_the_whole"),
        (MixesPositions, "ignores_padding"),
        (ForgetsANorm, "every_parameter_learns"),
        (Stashes, "keeps_nothing_between_calls"),
        (Remembers, "gives_the_same_gradients_when_checkpointed"),
        (BreaksTheGraph, "compiles_to_the_stated_number_of_graphs"),
        (ZeroDimensional, "has_no_parameter_without_dimensions"),
        (Privileged, "has_no_privileged_basis"),
        (BlowsUpInBfloat16, "runs_in_bfloat16"),
    ],
)
def test_sabotage_is_found(connection, check):
    with pytest.raises(ContractError):
        CHECKS[check](design_with(connection), "decoder")


def test_the_error_names_design_mode_and_check():
    with pytest.raises(ContractError, match=r"test_ForgetsANorm, encoder, every_parameter_learns: .*norm\.weight"):
        check_arrangement(design_with(ForgetsANorm))


def test_an_exception_inside_a_design_becomes_a_contract_error():
    class Raises(Sabotaged):
        def read(self, stream):
            raise RuntimeError("no")

    with pytest.raises(ContractError, match="wanted a result, came RuntimeError: no"):
        check_arrangement(design_with(Raises))


def test_checking_leaves_the_random_state_alone():
    state = torch.random.get_rng_state()
    check_arrangement("admin", modes=["encoder"])
    assert torch.equal(state, torch.random.get_rng_state())


def test_unknown_names_get_the_nearest():
    with pytest.raises(addnorm.SpecError, match="did you mean 'b2t'"):
        check_arrangement("b2")
    with pytest.raises(addnorm.SpecError, match="did you mean 'decoder'"):
        check_arrangement("b2t", modes=["decodr"])
