"""Beam search, against one written out in plain lists, against all sequences there are, and against greedy."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable
from itertools import islice, pairwise
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from addnorm.arrangements import CATALOGUE
from addnorm.layers.attention import Attention
from addnorm.layers.cache import Cache
from addnorm.layers.masks import PrefixCausal
from addnorm.models import Beam, Greedy
from addnorm.models.generate import begin, repeat
from addnorm.models.model import Model
from addnorm.spec import SpecError
from tests.models.test_generate import (
    ATTENTIONS,
    BOS,
    MAX_NEW,
    MODES,
    PAD,
    POSITIONS,
    PROMPTS,
    SCORE,
    Answer,
    an_end,
    answers,
    assert_same,
    every_mode,
    fixed_model,
    generate,
    log_chances,
    make,
    padded,
    score_of,
)

PENALTIES = (-1.5, 0.0, 0.6, 1.0, 2.0)
STOPS: tuple[Any, ...] = (True, False, "never")
every_penalty = pytest.mark.parametrize("penalty", PENALTIES)
every_stop = pytest.mark.parametrize("stop", STOPS)

PROMPTS_OF_FIVE = [[3, 1, 4, 1, 2], [2, 4], [0, 3, 2], [4]]


def make_of_five(mode: str, seed: int, eos: int) -> Any:
    """A model with five words, where EOS comes often."""
    model = make(mode, seed=seed, vocab=5, depth=1)
    with torch.no_grad():
        model.head.linear.bias[eos] += 0.7
    return model


def beam(width: int, penalty: float = 1.0, stop: Any = False) -> Beam:
    return Beam(width=width, length_penalty=penalty, early_stopping=stop)


# -- written out, in lists -----------------------------------------------------------------------------------


class Found(NamedTuple):
    answer: Answer
    gap: float  # the least difference that decided something: below rounding, either answer is right


def by_the_book(
    model: Model, prompt: list[int], max_new: int, eos: int | None, search: Beam, patient: bool = False
) -> Found:
    """No cache, no tensors kept, no copies of the prompt: a full forward of every beginning at every step.

    patient  never stop before the last step
    """
    width, penalty = search.width, search.length_penalty
    running, pool, gaps = [Answer([], 0.0)], [], [math.inf]
    for length in range(1, max_new + 1):
        said = log_chances(model, prompt, [begun.tokens for begun in running]).tolist()
        reached = [
            Answer([*begun.tokens, token], begun.score + gain)
            for begun, gains in zip(running, said, strict=True)
            for token, gain in enumerate(gains)
        ]
        reached.sort(key=lambda candidate: -candidate.score)
        gaps += [a.score - b.score for a, b in pairwise(reached[: 2 * width + 1])]
        candidates = reached[: 2 * width]
        ending = [length == max_new or candidate.tokens[-1] == eos for candidate in candidates]
        for candidate, ends in islice(zip(candidates, ending, strict=True), width):
            if ends:
                pool.append(Answer(candidate.tokens, candidate.score / length**penalty))
        pool = sorted(pool, key=lambda finished: -finished.score)[:width]
        running = [candidate for candidate, ends in zip(candidates, ending, strict=True) if not ends][:width]
        if len(pool) == width and running and not patient:
            hopeful = max_new if search.early_stopping == "never" and penalty > 0 else length
            ahead = running[0].score / hopeful**penalty - pool[-1].score
            if search.early_stopping is not True:
                gaps.append(abs(ahead))
            if search.early_stopping is True or ahead <= 0:
                break
    gaps += [a.score - b.score for a, b in pairwise(pool[:2])]
    return Found(pool[0], min(gaps))


class Case(NamedTuple):
    model: Any
    prompts: list[list[int]]
    max_new: int
    eos: int | None
    search: Beam


DESIGNS = ("pre_ln", "post_ln", "dlcl", "hyper_connections", "resi_dual", "b2t")


def draw_case(seed: int) -> Case:
    """A model, prompts and a search, all by chance. A small vocabulary, so that EOS comes often and at any rank."""
    dice = random.Random(seed)
    vocab = dice.randint(3, 9)
    model = make(
        dice.choice(MODES),
        dice.choice(DESIGNS),
        seed,
        vocab=vocab,
        depth=dice.randint(1, 2),
        positions=dice.choice(list(POSITIONS.values())),
        attention=dice.choice([Attention(), Attention(kv_heads=2), Attention(window=2)]),
    )
    prompts = [[dice.randrange(vocab) for _ in range(dice.randint(1, 5))] for _ in range(dice.randint(1, 3))]
    eos = dice.choice([None, *range(vocab)])
    width = dice.randint(1, 6)
    return Case(model, prompts, dice.randint(1, 6), eos, beam(width, dice.choice(PENALTIES), dice.choice(STOPS)))


def assert_by_the_book(cases: Iterable[Case]) -> int:
    """How many answers were compared; those that rounding decides are not."""
    compared = 0
    for model, prompts, max_new, eos, search in cases:
        wanted = [by_the_book(model, prompt, max_new, eos, search) for prompt in prompts]
        came = answers(generate(model, prompts, max_new=max_new, eos=eos, search=search))
        for mine, (theirs, gap) in zip(came, wanted, strict=True):
            if gap > SCORE:
                assert_same([mine], [theirs])
                compared += 1
    return compared


def test_a_hundred_searches_by_the_book() -> None:
    assert assert_by_the_book(map(draw_case, range(100))) > 180


@pytest.mark.slow
def test_two_thousand_searches_by_the_book() -> None:
    assert assert_by_the_book(map(draw_case, range(1000, 3000))) > 3600


# -- all sequences there are ---------------------------------------------------------------------------------


def best_of_all(model: Model, prompt: list[int], max_new: int, eos: int | None, penalty: float) -> Answer:
    begun, ended = [Answer([], 0.0)], []
    for length in range(1, max_new + 1):
        said = log_chances(model, prompt, [one.tokens for one in begun]).tolist()
        longer = [
            Answer([*one.tokens, token], one.score + gain)
            for one, gains in zip(begun, said, strict=True)
            for token, gain in enumerate(gains)
        ]
        begun = [one for one in longer if length < max_new and one.tokens[-1] != eos]
        ended += [
            Answer(one.tokens, one.score / length**penalty)
            for one in longer
            if length == max_new or one.tokens[-1] == eos
        ]
    return max(ended, key=lambda one: one.score)


@every_mode
@every_penalty
@every_stop
@pytest.mark.parametrize(("vocab", "max_new"), [(2, 5), (3, 3), (5, 2)])
def test_a_beam_as_wide_as_the_tree_finds_the_best_of_all(
    mode: str, penalty: float, stop: Any, vocab: int, max_new: int
) -> None:
    """Nothing is cut off and the pool is full only when all have ended, so the rule to stop does not matter either."""
    model, prompts = make(mode, vocab=vocab, depth=1), [[1, 0, 1], [1]]
    for eos in (None, 0, 1):
        wanted = [best_of_all(model, prompt, max_new, eos, penalty) for prompt in prompts]
        search = beam(vocab**max_new, penalty, stop)
        found = generate(model, prompts, max_new=max_new, eos=eos, pad=1, search=search)
        assert_same(answers(found, pad=1), wanted)


# -- against greedy ------------------------------------------------------------------------------------------


@every_mode
@pytest.mark.parametrize(
    ("penalty", "stop"), [(p, s) for s in STOPS for p in (-1.5, 0.0, 1.0) if p <= 0 or s != "never"], ids=str
)
def test_one_beam_is_greedy(mode: str, penalty: float, stop: Any) -> None:
    """But for `never` with a penalty that favours length: there, one beam goes on past its EOS in hope of better."""
    for seed in (0, 5):
        model = make(mode, seed=seed)
        free = answers(generate(model, PROMPTS))
        for eos in (None, an_end(free)):
            greedy = answers(generate(model, PROMPTS, eos=eos, search=Greedy()))
            wanted = [Answer(tokens, score / len(tokens) ** penalty) for tokens, score in greedy]
            assert_same(answers(generate(model, PROMPTS, eos=eos, search=beam(1, penalty, stop))), wanted)


@every_mode
@every_stop
@pytest.mark.parametrize("width", [1, 2, 5])
def test_one_step_is_greedy(mode: str, stop: Any, width: int) -> None:
    """Whatever the width: the best of all first tokens is among them."""
    model = make(mode)
    greedy = answers(generate(model, PROMPTS, max_new=1))
    for penalty in PENALTIES:
        assert_same(answers(generate(model, PROMPTS, max_new=1, search=beam(width, penalty, stop))), greedy)


@every_mode
@every_stop
@pytest.mark.parametrize("width", [2, 5])
def test_two_steps_are_never_worse_than_greedy(mode: str, stop: Any, width: int) -> None:
    """Greedy's first token is in the beam and all its successors are candidates. After more steps, nothing is sure."""
    better = 0
    for seed in range(6):
        model = make(mode, seed=seed)
        eos = an_end(answers(generate(model, PROMPTS))) if seed in (0, 3, 5) else None
        greedy = answers(generate(model, PROMPTS, max_new=2, eos=eos))
        found = answers(generate(model, PROMPTS, max_new=2, eos=eos, search=beam(width, 0.0, stop)))
        assert all(mine.score > theirs.score - SCORE for mine, theirs in zip(found, greedy, strict=True))
        better += sum(mine.score > theirs.score + SCORE for mine, theirs in zip(found, greedy, strict=True))
    assert better > 0, "a beam that never finds better tests nothing"


# -- the cache follows the beams -----------------------------------------------------------------------------


def assert_scores_are_true(model: Any, search: Beam, **choices: Any) -> None:
    """The score of an answer, from full forwards of that answer."""
    found = answers(generate(model, PROMPTS, search=search, **choices))
    wanted = [
        Answer(tokens, score_of(model, prompt, tokens) / len(tokens) ** search.length_penalty)
        for prompt, (tokens, _) in zip(PROMPTS, found, strict=True)
    ]
    assert_same(found, wanted)


@every_mode
@pytest.mark.parametrize("positions", POSITIONS)
def test_scores_are_those_of_a_full_forward(mode: str, positions: str) -> None:
    model = make(mode, positions=POSITIONS[positions])
    eos = an_end(answers(generate(model, PROMPTS)))
    assert_scores_are_true(model, beam(7, 2.0))
    assert_scores_are_true(model, beam(2, 0.0, True), eos=eos)
    assert_scores_are_true(model, beam(4, 1.0, "never"), eos=eos)


@every_mode
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_every_attention_follows_the_beams(mode: str, attention: str) -> None:
    model = make(mode, attention=ATTENTIONS[attention])
    assert_scores_are_true(model, beam(4, 0.5))
    assert assert_by_the_book([Case(model, PROMPTS, 5, 3, beam(3))]) > 0


@every_mode
@pytest.mark.parametrize("design", CATALOGUE)
def test_every_design_follows_the_beams(mode: str, design: str) -> None:
    assert assert_by_the_book([Case(make(mode, design), PROMPTS, 4, 3, beam(3))]) > 0


@pytest.mark.parametrize("positions", POSITIONS)
def test_prefix_causal_follows_the_beams(positions: str) -> None:
    model = make(visibility=PrefixCausal(), positions=POSITIONS[positions])
    assert assert_by_the_book([Case(model, PROMPTS, 5, 3, beam(3))]) > 0


def test_the_prompt_is_read_once_and_then_one_token_a_beam() -> None:
    model, shapes = make(), []
    model.register_forward_pre_hook(lambda module, args: shapes.append(tuple(args[0].shape)))
    generate(model, PROMPTS, search=beam(4))
    assert shapes == [(12, 6)] + [(12, 1)] * (MAX_NEW - 1)


# -- a batch changes nothing ---------------------------------------------------------------------------------


@every_mode
@every_stop
@pytest.mark.parametrize("penalty", [-1.0, 0.0, 1.0, 2.0])
def test_a_batch_is_its_rows_one_by_one(mode: str, stop: Any, penalty: float) -> None:
    """Rows end at different steps, and what others still do must not change them."""
    lengths = set()
    for seed in (0, 5):
        model, choices = make_of_five(mode, seed, eos=3), {"eos": 3, "search": beam(2, penalty, stop)}
        wanted = [one for prompt in PROMPTS_OF_FIVE for one in answers(generate(model, [prompt], **choices))]
        assert_same(answers(generate(model, PROMPTS_OF_FIVE, **choices)), wanted)
        lengths |= {len(answer.tokens) for answer in wanted}
    assert len(lengths) > 1 or penalty > 0.0


@pytest.mark.parametrize("side", ["left", "right", "holes"])
def test_prompts_and_sources_are_padded_on_any_side(side: str) -> None:
    search = beam(3, 1.0)
    for mode in MODES:
        model = make(mode)
        wanted = [by_the_book(model, prompt, 5, 3, search).answer for prompt in PROMPTS]
        more = {} if mode == "decoder" else {"bos": BOS}
        found = model.generate(*padded(PROMPTS, side), max_new=5, eos=3, pad=PAD, search=search, **more)
        assert_same(answers(found), wanted)


def test_without_eos_every_answer_has_the_full_length() -> None:
    for stop in STOPS:
        for penalty in PENALTIES:
            found = generate(make(), PROMPTS, search=beam(3, penalty, stop))
            assert found.lengths.tolist() == [MAX_NEW] * 3


# -- when to stop, and what is longer worth ------------------------------------------------------------------


@pytest.mark.parametrize(("penalty", "long"), [(-2.0, False), (-1.0, False), (0.0, False), (1.0, True), (2.0, True)])
@pytest.mark.parametrize("width", [2, 3, 4])
def test_the_penalty_decides_between_short_and_long(penalty: float, long: bool, width: int) -> None:
    """EOS with chance 0.4 or another token with 0.5, at each of four steps: log 0.4 against 4 log 0.5."""
    model = fixed_model([math.log(0.4), math.log(0.5), math.log(0.06), math.log(0.04)])
    ((tokens, score),) = answers(model.generate([[1]], max_new=4, eos=0, search=beam(width, penalty, "never")))
    assert tokens == ([1, 1, 1, 1] if long else [0])
    total = 4 * math.log(0.5) if long else math.log(0.4)
    assert score == pytest.approx(total / len(tokens) ** penalty, SCORE)


@every_mode
@pytest.mark.parametrize("penalty", [0.6, 1.0, 2.0])
def test_more_patience_is_never_worse(mode: str, penalty: float) -> None:
    """All three walk the same way, and the best finished so far can only rise: who stops later has it as good."""
    gained = sooner = 0
    for seed in range(6):
        model, reads = make_of_five(mode, seed, eos=3), Counter()
        model.head.register_forward_pre_hook(lambda *_, reads=reads: reads.update(["now"]))
        scores, steps = [], []
        for stop in STOPS:
            reads.clear()
            scores.append(generate(model, PROMPTS_OF_FIVE, eos=3, search=beam(2, penalty, stop)).scores)
            steps.append(reads["now"])
        assert bool((scores[0] <= scores[1] + SCORE).all())
        assert bool((scores[1] <= scores[2] + SCORE).all())
        assert steps == sorted(steps)
        gained += bool((scores[0] < scores[2] - SCORE).any())
        sooner += steps[0] < steps[2]
    assert sooner
    assert gained or penalty < 1.0


@every_mode
@every_penalty
def test_never_loses_nothing_by_stopping(mode: str, penalty: float) -> None:
    """Where it stops, no beginning can reach the pool: going on to the last step gives the same."""
    stopped = 0
    for seed in range(4):
        model, reads = make_of_five(mode, seed, eos=3), Counter()
        search = beam(2, penalty, "never")
        wanted = [by_the_book(model, p, 6, 3, search, patient=True).answer for p in PROMPTS_OF_FIVE]
        model.head.register_forward_pre_hook(lambda *_, reads=reads: reads.update(["now"]))
        assert_same(answers(generate(model, PROMPTS_OF_FIVE, max_new=6, eos=3, search=search)), wanted)
        stopped += reads["now"] < 6
    assert stopped or penalty > 0.0


def run_script(search: Beam, *rows: list[list[float]]) -> list[Answer]:
    """The search over chances that are given step by step, one list of steps a prompt; token 0 is EOS."""
    logits = torch.tensor(rows, dtype=torch.float64).log().repeat_interleave(search.width, dim=0)
    steps = iter(range(logits.shape[1]))

    def read(tokens: Tensor, real: Tensor, cache: Cache) -> Tensor:
        return logits[:, next(steps), None]

    start = repeat(begin([[1]] * len(rows), None, logits.shape[1], 0, PAD, torch.device("cpu")), search.width)
    return answers(search.run(read, start, Cache(len(logits), 1 + logits.shape[1])))


def test_never_with_a_penalty_that_favours_brevity_looks_at_the_present_length() -> None:
    """At the longest length nothing could beat the two finished by step two; at step three, 1 1 0 does."""
    chances = [[0.03, 0.95, 0.02], [0.3, 0.65, 0.05], *[[0.99, 0.005, 0.005]] * 4]
    wanted = Answer([1, 1, 0], math.log(0.95 * 0.65 * 0.99) * 3**1.5)
    assert_same(run_script(beam(2, -1.5, "never"), chances), [wanted])


def test_a_row_that_stopped_does_not_start_again() -> None:
    """What the first row could still become is worse than its EOS, and later better, while the second row goes on."""
    first = [[0.5, 0.45, 0.05], *[[0.005, 0.99, 0.005]] * 5]
    second = [[0.05, 0.9, 0.05]] * 6
    for stop, tokens in ((True, [0]), (False, [0]), ("never", [1] * 6)):
        search = beam(1, 1.0, stop)
        alone = run_script(search, first)
        assert alone[0].tokens == tokens
        assert_same(run_script(search, first, second), alone + run_script(search, second))


# -- at the edges --------------------------------------------------------------------------------------------


def test_copies_of_the_prompt_are_no_answers() -> None:
    """A beam wider than the first step has candidates: what fills it up must not end, nor fill the pool.

    Words in another order have the same score here, so scores are compared.
    """
    model = fixed_model([math.log(0.4), math.log(0.35), math.log(0.25)])
    for width in (4, 9, 20):
        search = beam(width, 2.0, True)
        wanted = by_the_book(model, [1], 6, 0, search).answer
        came = answers(model.generate([[1]], max_new=6, eos=0, search=search))
        assert [one.score for one in came] == [pytest.approx(wanted.score, SCORE)]


def test_a_penalty_far_below_zero_still_ranks() -> None:
    """Scores are finite numbers of any size; none is too low to be an answer."""
    model = make()
    search = beam(3, -8.0)
    wanted = [by_the_book(model, prompt, 12, None, search).answer for prompt in PROMPTS]
    assert_same(answers(generate(model, PROMPTS, max_new=12, search=search)), wanted)


def test_eos_may_also_be_what_pads() -> None:
    model = make(vocab=8)
    prompts = [[3, 1, 4], [2], [6, 6]]
    for eos in range(8):
        found = generate(model, prompts, eos=eos, pad=eos, search=beam(3))
        other = generate(model, prompts, eos=eos, search=beam(3))
        assert_same(answers(found, eos), answers(other))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"width": 0}, "width: wanted greater than or equal to 1, came 0"),
        ({"width": 2.5}, "width: wanted a valid integer, came 2.5"),
        ({"early_stopping": "always"}, "early_stopping.*wanted 'never', came 'always'"),
        ({"early_stopping": 1}, "early_stopping.*wanted a valid boolean, came 1"),
        ({"length_penalty": math.nan}, "length_penalty: wanted a finite number, came nan"),
    ],
    ids=str,
)
def test_beams_that_cannot_be_are_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        Beam(**fields)


def test_a_beam_is_a_value_like_any_spec() -> None:
    for stop in STOPS:
        search = beam(3, -0.5, stop)
        assert Beam.from_json(search.to_json()) == search
        assert Beam.from_json(search.to_json()).early_stopping is stop or stop == "never"
