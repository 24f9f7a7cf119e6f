"""The cache: buffers that never move, and a clear word when they are full."""

import pytest
import torch

from addnorm.layers.cache import NO_CACHE, Cache
from tests.layers.stage import draw


def advance(cache, tokens, start=0):
    """That many real tokens a row, at the positions after `start`."""
    rows = len(cache.real)
    cache.advance(torch.arange(start, start + tokens).expand(rows, -1), torch.ones(rows, tokens, dtype=torch.bool))


def test_what_was_written_comes_back_with_what_is_new():
    cache = Cache(2, 5)
    k, v = draw(2, 3, 4, 6), draw(2, 3, 4, 7, seed=1)
    advance(cache, 3)
    first = cache.extend(0, k[:, :, :3], v[:, :, :3])
    advance(cache, 1, start=3)
    second = cache.extend(0, k[:, :, 3:], v[:, :, 3:])
    assert torch.equal(first[0], k[:, :, :3])
    assert torch.equal(second[0], k)
    assert torch.equal(second[1], v)


def test_layers_do_not_share():
    cache = Cache(1, 2)
    advance(cache, 2)
    pairs = {layer: draw(1, 1, 2, 3, seed=layer) for layer in (0, 1)}
    for layer, k in pairs.items():
        cache.extend(layer, k, k)
    assert torch.equal(cache.extend(0, pairs[0], pairs[0])[0], pairs[0])


def test_the_buffers_never_move():
    cache = Cache(1, 4)
    places = set()
    for step in range(4):
        advance(cache, 1, start=step)
        k, _ = cache.extend(0, draw(1, 1, 1, 3), draw(1, 1, 1, 3))
        places.add(k.data_ptr())
    assert len(places) == 1


def test_positions_and_reality_are_remembered():
    cache = Cache(2, 4)
    cache.advance(torch.tensor([[0, 0, 1], [0, 1, 2]]), torch.tensor([[False, True, True], [True, True, True]]))
    assert cache.positions[:, :3].tolist() == [[0, 0, 1], [0, 1, 2]]
    assert cache.real.tolist() == [[False, True, True, False], [True, True, True, False]]
    assert (cache.start, cache.length) == (0, 3)


def test_more_than_it_holds_is_an_error():
    cache = Cache(1, 3)
    advance(cache, 2)
    with pytest.raises(ValueError, match="holds 3 tokens a row, wanted 4; make it with a larger capacity"):
        advance(cache, 2, start=2)


def test_a_refused_step_leaves_the_cache_as_it_was():
    cache = Cache(1, 3)
    advance(cache, 2)
    with pytest.raises(ValueError, match="capacity"):
        advance(cache, 2, start=2)
    assert (cache.start, cache.length) == (0, 2)
    advance(cache, 1, start=2)


def test_reorder_takes_everything_along():
    """Row i goes on from row rows[i]; a row may be taken twice."""
    cache = Cache(3, 2)
    cache.advance(torch.arange(6).view(3, 2), torch.tensor([[True, True], [False, True], [False, False]]))
    k, v, memory = draw(3, 1, 2, 4), draw(3, 1, 2, 4, seed=1), draw(3, 1, 5, 4, seed=2)
    cache.extend(0, k, v)
    cache.memory(0, lambda: (memory, memory))
    rows = torch.tensor([2, 0, 0])
    cache.reorder(rows)
    assert torch.equal(cache.pairs[0][0], k[rows])
    assert torch.equal(cache.pairs[0][1], v[rows])
    assert torch.equal(cache.memories[0][0], memory[rows])
    assert cache.positions.tolist() == [[4, 5], [0, 1], [0, 1]]
    assert cache.real.tolist() == [[False, False], [True, True], [True, True]]


def test_rows_part_ways_after_a_reorder():
    """Two rows taken from one must not write into each other's buffers."""
    cache = Cache(2, 2)
    advance(cache, 1)
    cache.extend(0, draw(2, 1, 1, 3), draw(2, 1, 1, 3))
    cache.reorder(torch.tensor([0, 0]))
    advance(cache, 1, start=1)
    new = draw(2, 1, 1, 3, seed=4)
    k, _ = cache.extend(0, new, new)
    assert torch.equal(k[:, :, 1:], new)
    assert torch.equal(k[0, :, 0], k[1, :, 0])


def test_memory_is_made_once():
    cache, made = Cache(1, 2), []

    def make():
        made.append(1)
        return draw(1, 1, 2, 3), draw(1, 1, 2, 3)

    first, second = cache.memory(0, make), cache.memory(0, make)
    assert first is second
    assert len(made) == 1
    cache.memory(1, make)
    assert len(made) == 2


def test_without_a_cache_nothing_is_remembered():
    k, v = draw(1, 1, 2, 3), draw(1, 1, 2, 3, seed=1)
    assert NO_CACHE.extend(0, k, v) == (k, v)
    assert NO_CACHE.memory(0, lambda: (k, v)) == (k, v)
