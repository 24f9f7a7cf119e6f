"""Calibration on two ranks: rank 0's batch serves both, and ranks that differ are told."""

import pytest
import torch

from addnorm import build, calibrate
from tests.distributed.ranks import on_two_ranks

SIZES = {"vocab": 11, "width": 8, "heads": 2, "depth": 3}


def batch(rank, length=5):
    return torch.randint(0, 11, (2, length), generator=torch.Generator().manual_seed(rank))


def admin(seed=0):
    return build("admin", mode="encoder", seed=seed, dropout=0.2, **SIZES)


def omegas(model):
    return torch.cat([part.skip.weight.detach() for block in model.stack.blocks for part in block.connections.values()])


def work(rank):
    torch.manual_seed(rank)  # the ranks' own random states differ, as they do in a run
    model, mine = admin(), batch(rank)
    calibrate(model, mine)
    found = {"omegas": omegas(model), "batch after": mine}
    model = admin()
    try:
        calibrate(model, batch(rank, length=5 + rank))
        found["omegas of a ragged batch"] = omegas(model)
    except RuntimeError as error:
        found["failed"] = str(error)
    try:
        calibrate(admin(seed=rank), mine)
    except RuntimeError as error:
        found["said"] = str(error)
    return found


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    return on_two_ranks(work, tmp_path_factory.mktemp("ranks"))


def alone(rank):
    model = admin()
    calibrate(model, batch(rank))
    return omegas(model)


def test_both_ranks_find_what_one_process_finds_on_rank_zero_s_batch(ranks):
    assert torch.equal(ranks[0]["omegas"], ranks[1]["omegas"])
    assert torch.equal(ranks[0]["omegas"], alone(0))


def test_batches_of_different_lengths_are_replaced_whole(ranks):
    """Sentences are as long as they are: the ranks' batches seldom have one shape."""
    for found in ranks:
        assert "failed" not in found, found["failed"]
        assert torch.equal(found["omegas of a ragged batch"], alone(0))


def test_rank_one_s_batch_would_have_given_others():
    assert not torch.allclose(alone(0), alone(1))


def test_a_rank_s_batch_is_not_overwritten(ranks):
    for rank in range(2):
        assert torch.equal(ranks[rank]["batch after"], batch(rank))


def test_ranks_with_different_weights_are_told(ranks):
    for found in ranks:
        assert "the ranks disagree" in found["said"]
