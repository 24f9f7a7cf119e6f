"""Generation, one row per prompt: cached, batched and padded, it writes what full forwards of each row alone would."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from addnorm.arrangements import CATALOGUE
from addnorm.layers.attention import Attention, WrittenOut
from addnorm.layers.cache import Cache
from addnorm.layers.dropout import Dropout
from addnorm.layers.embeddings import LinearHead, NoHead, TiedHead
from addnorm.layers.feed_forward import FeedForward
from addnorm.layers.fixup import FixupAttention, FixupFeedForward
from addnorm.layers.layouts import AttentionOnly, SideBySide
from addnorm.layers.masks import PrefixCausal
from addnorm.layers.norms import RMSNorm
from addnorm.layers.parallel import Parallel
from addnorm.layers.positions import (
    ALiBi,
    Index,
    Learned,
    NoPositions,
    Positions,
    Relative,
    Rotary,
    Sinusoidal,
)
from addnorm.layers.sublayer import Repeating
from addnorm.models import Beam, Decoder, EncoderDecoder, Generated, Greedy, Sample, make_spec
from addnorm.models.model import Model
from addnorm.spec import SpecError
from tests.tolerances import assert_close

VOCAB, MAX_LENGTH, MAX_NEW = 19, 20, 8
BOS, PAD = 1, 2
"""Both are tokens that also occur as words: padding is what the mask says, not what the token says."""
PROMPTS = [[3, 1, 4, 1, 5, 9], [2, 6], [0, 3, 5]]

MODES = ("decoder", "encoder_decoder")
every_mode = pytest.mark.parametrize("mode", MODES)
SEARCHES = (Greedy(), Sample(seed=3), Beam(width=3))
every_search = pytest.mark.parametrize("search", SEARCHES, ids=lambda search: search.kind)


# -- models, and the long way round --------------------------------------------------------------------------


def make(mode: str = "decoder", design: str = "pre_ln", seed: int = 5, **changes: Any) -> Any:
    """A tiny model in float64, every parameter redrawn. With a tied head it would repeat the last word for ever."""
    sizes = {"vocab": VOCAB, "width": 16, "heads": 4, "depth": 2, "max_length": MAX_LENGTH}
    contents = {"feed_forward": FeedForward(hidden=16), "head": LinearHead(bias=True)}
    spec = make_spec(design, mode=mode).replace(sizes | contents | changes)
    model = spec.build().double().eval()
    redraw(model, seed)
    return model


@torch.no_grad()
def redraw(model: nn.Module, seed: int) -> None:
    """Every parameter at random, none an identity; matrices keep variance."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        draw = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        if parameter.ndim > 1:
            parameter.copy_(draw if "embedding" in name else draw * parameter.shape[-1] ** -0.5)
        else:
            parameter.copy_(0.3 * draw if name.endswith("bias") else 0.8 + 0.2 * draw)


@torch.no_grad()
def log_chances(model: Model, prompt: list[int], written: list[list[int]]) -> Tensor:
    """(N, vocab) of the next token after each of N beginnings of one length: a full forward, no cache, no padding."""
    after = torch.tensor(written, dtype=torch.long).reshape(len(written), -1)
    before = torch.tensor([prompt]).expand(len(after), -1)
    if isinstance(model, EncoderDecoder):
        logits = model(before, torch.cat((torch.full((len(after), 1), BOS), after), dim=1))
    else:
        prefix = torch.full((len(after),), len(prompt)) if model.spec.visibility == PrefixCausal() else None
        logits = model(torch.cat((before, after), dim=1), prefix=prefix)
    assert logits.dtype == torch.float64
    return logits[:, -1].log_softmax(dim=-1)


class Answer(NamedTuple):
    tokens: list[int]
    score: float


def alone(model: Model, prompt: list[int], max_new: int = MAX_NEW, eos: int | None = None) -> Answer:
    """Greedy, the long way round: every token from a full forward of one row."""
    tokens: list[int] = []
    score = 0.0
    while len(tokens) < max_new and (eos is None or eos not in tokens):
        best = log_chances(model, prompt, [tokens])[0].max(dim=0)
        tokens.append(int(best.indices))
        score += float(best.values)
    return Answer(tokens, score)


def score_of(model: Model, prompt: list[int], tokens: list[int]) -> float:
    """The sum of log-probabilities of an answer, whoever wrote it."""
    return sum(float(log_chances(model, prompt, [tokens[:i]])[0, token]) for i, token in enumerate(tokens))


def padded(prompts: list[list[int]], side: str, fill: int = 0) -> tuple[Tensor, Tensor]:
    """(B, T) tokens and their mask. Holes: what is missing is missing in the middle."""
    width = max(map(len, prompts))
    rows, masks = [], []
    for prompt in prompts:
        gap = width - len(prompt)
        cut = {"left": 0, "right": len(prompt), "holes": 1}[side]
        rows.append(prompt[:cut] + [fill] * gap + prompt[cut:])
        masks.append([True] * cut + [False] * gap + [True] * (len(prompt) - cut))
    return torch.tensor(rows), torch.tensor(masks)


def generate(model: Any, prompts: list[list[int]], **choices: Any) -> Generated:
    """Prompts of a decoder are lists; an encoder-decoder's are sources, padded on the right."""
    choices = {"max_new": MAX_NEW, "pad": PAD} | choices
    if isinstance(model, EncoderDecoder):
        return model.generate(*padded(prompts, "right"), bos=BOS, **choices)
    return model.generate(prompts, **choices)


def answers(generated: Generated, pad: int = PAD) -> list[Answer]:
    """Row by row, with what must hold of every Generated."""
    tokens, lengths, scores = generated
    assert tokens.dtype == lengths.dtype == torch.long
    assert tokens.ndim == 2
    assert lengths.shape == scores.shape == tokens.shape[:1]
    assert tokens.shape[1] == int(lengths.max()), "a column that no row needs"
    assert bool((lengths >= 1).all())
    for row, length in zip(tokens.tolist(), lengths.tolist(), strict=True):
        assert row[length:] == [pad] * (len(row) - length), "after the end, padding alone"
    rows = zip(tokens.tolist(), lengths.tolist(), scores.tolist(), strict=True)
    return [Answer(row[:length], score) for row, length, score in rows]


SCORE = 1e-9
"""How close a score is, relative and absolute, when a float64 model's log-probabilities are summed in another order."""


def assert_same(actual: list[Answer], wanted: list[Answer]) -> None:
    assert [answer.tokens for answer in actual] == [answer.tokens for answer in wanted]
    assert [answer.score for answer in actual] == [pytest.approx(answer.score, SCORE, SCORE) for answer in wanted]


def an_end(found: list[Answer]) -> int:
    """A token that, as EOS, cuts these answers at different places, and not all of them at the first."""
    written = [answer.tokens for answer in found]

    def variety(token: int) -> tuple[int, int]:
        ends = [row.index(token) for row in written if token in row]
        return len({*ends, *([-1] if len(ends) < len(written) else [])}), max(ends)

    best = max({token for row in written for token in row}, key=variety)
    assert variety(best)[0] > 1, "no token would do"
    return best


def cut(found: list[Answer], eos: int) -> list[list[int]]:
    return [row[: row.index(eos) + 1] if eos in row else row for row in (answer.tokens for answer in found)]


# -- the cache changes nothing -------------------------------------------------------------------------------

POSITIONS = {
    "sinusoidal": Sinusoidal(),
    "learned": Learned(),
    "index": Index(),
    "rotary": Rotary(),
    "alibi": ALiBi(),
    # Few buckets, so that these short sequences reach the logarithmic ones and the last.
    "relative": Relative(buckets=4, max_distance=6),
    "no_positions": NoPositions(),
}

ATTENTIONS = {
    "grouped": Attention(kv_heads=2),
    "one_kv_head": Attention(kv_heads=1, head_width=6),
    "window": Attention(window=3),
    "window_of_one": Attention(window=1),
    "windows_by_layer": Repeating(pattern=(Attention(window=2), Attention())),
    "persistent": Attention(persistent=3),
    "persistent_grouped_window": Attention(persistent=2, kv_heads=2, window=2),
    "query_key_norm": Attention(query_key_norm=RMSNorm(), query_key_norm_over="width"),
    "written_out": Attention(core=WrittenOut(cap=2.0)),
    "fixup": FixupAttention(),
}


def test_every_kind_of_positions_is_tried() -> None:
    ours = {kind for kind, member in Positions.registry.items() if member.__module__.startswith("addnorm.")}
    assert ours == set(POSITIONS)


@every_mode
@pytest.mark.parametrize("positions", POSITIONS.values(), ids=POSITIONS)
def test_cached_greedy_is_greedy_by_full_forwards(mode: str, positions: Positions) -> None:
    model = make(mode, positions=positions)
    wanted = [alone(model, prompt) for prompt in PROMPTS]
    assert_same(answers(generate(model, PROMPTS)), wanted)
    unsure = [answer.score / MAX_NEW for answer in wanted]
    assert all(-math.log(VOCAB) < score < -0.5 for score in unsure), "a model that is sure of everything tests nothing"


@every_mode
@pytest.mark.parametrize("attention", ATTENTIONS.values(), ids=ATTENTIONS)
def test_every_attention_goes_on_from_a_cache(mode: str, attention: Any) -> None:
    model = make(mode, attention=attention)
    assert_same(answers(generate(model, PROMPTS)), [alone(model, prompt) for prompt in PROMPTS])


@pytest.mark.parametrize("attention", ["window", "persistent", "persistent_grouped_window", "written_out"])
@pytest.mark.parametrize("positions", ["rotary", "alibi", "relative"])
def test_attentions_and_positions_together(attention: str, positions: str) -> None:
    model = make(attention=ATTENTIONS[attention], positions=POSITIONS[positions])
    assert_same(answers(generate(model, PROMPTS)), [alone(model, prompt) for prompt in PROMPTS])


@pytest.mark.parametrize("positions", POSITIONS.values(), ids=POSITIONS)
@pytest.mark.parametrize("attention", [Attention(), Attention(window=3, persistent=2)], ids=["plain", "window"])
def test_prefix_causal_sees_the_whole_prompt_and_nothing_ahead(positions: Positions, attention: Attention) -> None:
    model = make(visibility=PrefixCausal(), positions=positions, attention=attention)
    wanted = [alone(model, prompt) for prompt in PROMPTS]
    assert_same(answers(generate(model, PROMPTS)), wanted)
    causal = make(positions=positions, attention=attention)
    assert [answer.score for answer in wanted] != [alone(causal, prompt).score for prompt in PROMPTS]


@every_mode
@pytest.mark.parametrize("design", CATALOGUE)
def test_every_design_goes_on_from_a_cache(mode: str, design: str) -> None:
    model = make(mode, design, depth=3)
    assert_same(answers(generate(model, PROMPTS)), [alone(model, prompt) for prompt in PROMPTS])


@pytest.mark.parametrize(
    "changes",
    [
        {"layout": SideBySide()},
        {"layout": AttentionOnly(), "attention": Attention(persistent=4)},
        {"head": TiedHead(bias=True)},
        {"depth": 1},
        {"feed_forward": FixupFeedForward(), "attention": FixupAttention()},
    ],
    ids=["side_by_side", "attention_only", "tied_head", "one_layer", "fixup"],
)
def test_every_layout_goes_on_from_a_cache(changes: dict[str, Any]) -> None:
    model = make(**changes)
    assert_same(answers(generate(model, PROMPTS)), [alone(model, prompt) for prompt in PROMPTS])


@pytest.mark.parametrize(
    "changes",
    [
        {"attention": Parallel(parts=(Attention(window=2), Attention()))},
        {"feed_forward": Attention(window=2)},
    ],
    ids=["in_parallel", "one_after_the_other"],
)
def test_two_attentions_in_one_block_keep_their_keys_apart(changes: dict[str, Any]) -> None:
    model = make(**changes)
    assert_same(answers(generate(model, PROMPTS)), [alone(model, prompt) for prompt in PROMPTS])


@pytest.mark.parametrize(
    "changes", [{"decoder_depth": 3}, {"source_vocab": 10}, {"decoder_arrangement": CATALOGUE["dlcl"]}], ids=str
)
def test_an_encoder_decoder_with_unequal_sides(changes: dict[str, Any]) -> None:
    model = make("encoder_decoder", **changes)
    assert_same(answers(generate(model, PROMPTS)), [alone(model, prompt) for prompt in PROMPTS])


def test_the_prompt_is_read_once_and_then_one_token_a_step() -> None:
    model = make()
    widths: list[int] = []
    model.register_forward_pre_hook(lambda module, args: widths.append(args[0].shape[1]))
    generate(model, PROMPTS)
    assert widths == [6] + [1] * (MAX_NEW - 1)


def test_the_source_is_read_once() -> None:
    model = make("encoder_decoder")
    reads: list[int] = []
    keys: list[int] = []
    model.encoder.register_forward_pre_hook(lambda module, args: reads.append(1))
    for block in model.decoder.blocks:
        block.sublayers["cross_attention"].key.register_forward_pre_hook(lambda module, args: keys.append(1))
    generate(model, PROMPTS)
    assert (len(reads), len(keys)) == (1, len(model.decoder.blocks))


def test_the_likeliest_token_of_a_float64_model_is_chosen_in_float64() -> None:
    model = fixed_model([0.0, 5.0, 5.0 + 1e-9, 1.0])
    assert answers(model.generate([[1]], max_new=1))[0].tokens == [2]


# -- a batch changes nothing ---------------------------------------------------------------------------------


@every_mode
@every_search
def test_a_batch_is_its_rows_one_by_one(mode: str, search: Any) -> None:
    """Not for sampling: its rows take turns at one stream of random numbers."""
    if isinstance(search, Sample):
        search = search.replace({"top_k": 1})
    model = make(mode)
    one_by_one = [answer for prompt in PROMPTS for answer in answers(generate(model, [prompt], search=search))]
    assert_same(answers(generate(model, PROMPTS, search=search)), one_by_one)
    backwards = answers(generate(model, PROMPTS[::-1], search=search))
    assert_same(backwards[::-1], one_by_one)


@pytest.mark.parametrize("positions", POSITIONS.values(), ids=POSITIONS)
@pytest.mark.parametrize("visibility", ["causal", "prefix_causal"])
def test_prompts_come_as_lists_or_padded_on_any_side(positions: Positions, visibility: str) -> None:
    model = make(positions=positions, visibility=visibility)
    wanted = answers(model.generate(PROMPTS, max_new=MAX_NEW, pad=PAD))
    for side in ("left", "right", "holes"):
        assert_same(answers(model.generate(*padded(PROMPTS, side), max_new=MAX_NEW, pad=PAD)), wanted)
    tensors = [torch.tensor(prompt) for prompt in PROMPTS]
    assert_same(answers(model.generate(tensors, max_new=MAX_NEW, pad=PAD)), wanted)


def test_a_tensor_without_padding_is_all_real() -> None:
    model, prompts = make(), [[7, 7, 3], [0, 7, 7]]
    for given in (torch.tensor(prompts), torch.tensor(prompts, dtype=torch.int32)):
        assert_same(answers(model.generate(given, max_new=5, pad=7)), [alone(model, prompt, 5) for prompt in prompts])


@pytest.mark.parametrize("side", ["left", "right", "holes"])
@pytest.mark.parametrize("positions", POSITIONS.values(), ids=POSITIONS)
def test_a_source_is_padded_on_any_side(side: str, positions: Positions) -> None:
    model = make("encoder_decoder", positions=positions)
    source, real = padded(PROMPTS, side)
    found = answers(model.generate(source, real, bos=BOS, max_new=MAX_NEW, pad=PAD))
    assert_same(found, [alone(model, source) for source in PROMPTS])


@pytest.mark.parametrize("pad", range(0, VOCAB, 6))
def test_which_token_pads_does_not_matter(pad: int) -> None:
    model = make()
    wanted = [alone(model, prompt) for prompt in PROMPTS]
    eos = an_end(wanted)
    found = answers(model.generate(PROMPTS, max_new=MAX_NEW, eos=eos, pad=pad), pad)
    assert [answer.tokens for answer in found] == cut(wanted, eos)


# -- where it ends -------------------------------------------------------------------------------------------


@every_mode
@pytest.mark.parametrize("seed", [0, 3, 5, 9])
def test_each_row_stops_at_its_eos(mode: str, seed: int) -> None:
    model = make(mode, seed=seed)
    free = [alone(model, prompt) for prompt in PROMPTS]
    eos = an_end(free)
    wanted = [alone(model, prompt, eos=eos) for prompt in PROMPTS]
    assert [answer.tokens for answer in wanted] == cut(free, eos)
    for pad in (PAD, eos):
        found = generate(model, PROMPTS, eos=eos, pad=pad)
        assert found.lengths.tolist() == [len(answer.tokens) for answer in wanted], "lengths count EOS"
        assert_same(answers(found, pad), wanted)


def test_no_step_is_taken_after_the_last_row_has_ended() -> None:
    model, steps = make(), []
    eos = alone(model, PROMPTS[0]).tokens[0]
    model.register_forward_pre_hook(lambda module, args: steps.append(1))
    found = generate(model, PROMPTS[:1], eos=eos, max_new=10)
    assert (found.tokens.tolist(), found.lengths.tolist(), len(steps)) == ([[eos]], [1], 1)


@every_mode
@every_search
@pytest.mark.parametrize("max_new", [1, 2, 5])
def test_max_new_is_kept(mode: str, search: Any, max_new: int) -> None:
    found = generate(make(mode), PROMPTS, max_new=max_new, search=search)
    assert found.tokens.shape == (3, max_new)
    assert found.lengths.tolist() == [max_new] * 3


@pytest.mark.parametrize("max_new", [1, 3, 6])
def test_fewer_steps_write_the_same_beginning(max_new: int) -> None:
    model = make()
    assert answers(generate(model, PROMPTS, max_new=max_new)) == [
        Answer(row.tokens[:max_new], pytest.approx(score_of(model, prompt, row.tokens[:max_new]), SCORE, SCORE))
        for prompt, row in zip(PROMPTS, answers(generate(model, PROMPTS)), strict=True)
    ]


@every_search
def test_an_eos_that_never_comes_changes_nothing(search: Any) -> None:
    model = make()
    with torch.no_grad():
        model.head.linear.weight[18], model.head.linear.bias[18] = 0.0, -1e4
    found = answers(generate(model, PROMPTS, search=search, eos=18))
    free = answers(generate(model, PROMPTS, search=search))
    assert [answer.tokens for answer in found] == [answer.tokens for answer in free]


@every_mode
@pytest.mark.parametrize("temperature", [0.7, 1.0, 3.0])
def test_scores_are_the_models_log_probabilities(mode: str, temperature: float) -> None:
    """Of the tokens that were sampled too, and then the model's own, not the sharpened or flattened ones."""
    model = make(mode)
    eos = an_end([alone(model, prompt) for prompt in PROMPTS])
    found = answers(generate(model, PROMPTS, eos=eos, search=Sample(temperature=temperature, top_k=9, seed=1)))
    wanted = [score_of(model, prompt, answer.tokens) for prompt, answer in zip(PROMPTS, found, strict=True)]
    assert_same(found, [Answer(answer.tokens, score) for answer, score in zip(found, wanted, strict=True)])


# -- what it leaves behind -----------------------------------------------------------------------------------


@every_mode
@every_search
@pytest.mark.parametrize("training", [True, False])
def test_dropout_is_off_and_the_mode_comes_back(mode: str, search: Any, training: bool) -> None:
    quiet, model = make(mode), make(mode, dropout=Dropout.everywhere(0.5)).train(training)
    found = generate(model, PROMPTS, search=search)
    assert_same(answers(found), answers(generate(quiet, PROMPTS, search=search)))
    assert {module.training for module in model.modules()} == {training}
    assert torch.is_grad_enabled()
    assert not found.scores.requires_grad


def test_each_part_gets_its_own_mode_back() -> None:
    """A frozen part stays in eval mode while the rest trains."""
    model = make("encoder_decoder").train()
    model.encoder.eval()
    before = [module.training for module in model.modules()]
    generate(model, PROMPTS)
    assert [module.training for module in model.modules()] == before


def test_the_mode_comes_back_after_an_error() -> None:
    model = make().train()

    def fail(module: nn.Module, args: Any) -> None:
        raise RuntimeError("on purpose")

    model.stack.register_forward_pre_hook(fail)
    with pytest.raises(RuntimeError, match="on purpose"):
        generate(model, PROMPTS)
    assert all(module.training for module in model.modules())
    assert torch.is_grad_enabled()


@every_mode
@every_search
def test_nothing_of_the_callers_is_touched(mode: str, search: Any) -> None:
    model = make(mode, dropout=Dropout.everywhere(0.5)).train()
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    prompts = [list(prompt) for prompt in PROMPTS]
    torch.manual_seed(5)
    before = torch.get_rng_state()
    generate(model, prompts, search=search)
    assert torch.equal(torch.get_rng_state(), before), "the global random numbers moved"
    assert prompts == PROMPTS
    assert all(torch.equal(tensor, state[name]) for name, tensor in model.state_dict().items())
    assert all(parameter.requires_grad and parameter.grad is None for parameter in model.parameters())


@every_search
def test_the_global_seed_does_not_matter(search: Any) -> None:
    model, found = make(), []
    for seed in (0, 1):
        torch.manual_seed(seed)
        found.append(answers(generate(model, PROMPTS, search=search)))
    assert found[0] == found[1]


# -- sampling ------------------------------------------------------------------------------------------------


def fixed_model(logits: list[float]) -> Decoder:
    """A model that says the same whatever it reads."""
    model = make(vocab=len(logits))
    with torch.no_grad():
        model.head.linear.weight.zero_()
        model.head.linear.bias.copy_(torch.tensor(logits, dtype=torch.float64))
    return model


def test_a_seed_repeats_and_another_differs() -> None:
    model = make()
    first, again, other = (answers(generate(model, PROMPTS, search=Sample(seed=seed))) for seed in (0, 0, 1))
    assert first == again
    assert [answer.tokens for answer in first] != [answer.tokens for answer in other]


def test_rows_of_one_prompt_are_drawn_apart() -> None:
    found = answers(generate(make(), PROMPTS[:1] * 8, search=Sample(temperature=2.0)))
    assert len({tuple(answer.tokens) for answer in found}) == 8


@every_mode
@pytest.mark.parametrize(
    "search",
    [
        Sample(top_k=1, temperature=5.0),
        Sample(top_p=1e-6),
        Sample(temperature=1e-4),
        Sample(temperature=1e-30),
        Sample(temperature=1e-3, top_k=5, top_p=0.9),
    ],
    ids=lambda search: f"{search.temperature:g}-{search.top_k}-{search.top_p}",
)
def test_the_narrowest_sampling_is_greedy(mode: str, search: Sample) -> None:
    model = make(mode)
    eos = an_end([alone(model, prompt) for prompt in PROMPTS])
    for seed in range(3):
        found = generate(model, PROMPTS, eos=eos, search=search.replace({"seed": seed}))
        assert_same(answers(found), answers(generate(model, PROMPTS, eos=eos)))


DRAWS = 8000
SIX = [1.2, -0.3, 0.4, 2.0, -1.5, 0.9]


def counts(logits: list[float], search: Sample) -> list[int]:
    """How often each token comes in DRAWS samples of one step."""
    tokens = fixed_model(logits).generate([[1]] * DRAWS, max_new=1, search=search).tokens[:, 0]
    return torch.bincount(tokens, minlength=len(logits)).tolist()


def chances(logits: list[float], temperature: float = 1.0, kept: set[int] | None = None) -> list[float]:
    """Softmax over the kept tokens alone."""
    weights = [
        math.exp(logit / temperature) if kept is None or token in kept else 0.0 for token, logit in enumerate(logits)
    ]
    return [weight / sum(weights) for weight in weights]


def distance(found: list[int], wanted: list[float]) -> float:
    """Pearson's statistic in standard deviations from its mean. What cannot come must not."""
    assert all(count == 0 for count, chance in zip(found, wanted, strict=True) if chance == 0.0)
    pairs = [(count, sum(found) * chance) for count, chance in zip(found, wanted, strict=True) if chance > 0.0]
    freedom = len(pairs) - 1
    return (sum((count - mean) ** 2 / mean for count, mean in pairs) - freedom) / math.sqrt(2 * freedom)


@pytest.mark.parametrize(
    ("search", "kept"),
    [
        (Sample(), None),
        (Sample(temperature=0.5), None),
        (Sample(temperature=2.0), None),
        (Sample(top_k=2), {3, 0}),
        (Sample(top_k=4), {3, 0, 5, 2}),
        (Sample(top_k=100), None),
        # In order: 3 with 0.47, 0 with 0.21, 5 with 0.16, 2 with 0.10, ...
        (Sample(top_p=0.5), {3, 0}),
        (Sample(top_p=0.75), {3, 0, 5}),
        (Sample(top_p=1.0), None),
        # Among the first four alone, 3 and 0 have 0.73 of the mass, where among all they have 0.69.
        (Sample(top_k=4, top_p=0.7), {3, 0}),
        (Sample(top_p=0.7), {3, 0, 5}),
        # Flattened first, then cut: 3 has 0.31 now, 0 0.21, 5 0.18, 2 0.14.
        (Sample(temperature=2.0, top_p=0.75), {3, 0, 5, 2}),
        (Sample(temperature=0.5, top_k=3), {3, 0, 5}),
    ],
    ids=lambda value: f"{value.temperature:g}-{value.top_k}-{value.top_p}" if isinstance(value, Sample) else "",
)
def test_frequencies_are_the_renormalised_chances(search: Sample, kept: set[int] | None) -> None:
    wanted = chances(SIX, search.temperature, kept)
    assert abs(distance(counts(SIX, search), wanted)) < 4.0


def test_the_bound_on_frequencies_can_tell() -> None:
    """A tenth of the temperature, or a seed that never moves, would be seen."""
    assert distance(counts(SIX, Sample()), chances(SIX, 1.1)) > 4.0
    assert distance([DRAWS // 6] * 6, chances(SIX)) > 4.0


def test_the_frequencies_of_a_real_model_are_its_chances() -> None:
    model = make()
    for prompt in PROMPTS:
        found = model.generate([prompt] * DRAWS, max_new=1, search=Sample(seed=1)).tokens[:, 0]
        wanted = log_chances(model, prompt, [[]])[0].exp().tolist()
        assert abs(distance(torch.bincount(found, minlength=VOCAB).tolist(), wanted)) < 4.0


def test_lower_temperatures_come_nearer_to_greedy() -> None:
    shares = [counts(SIX, Sample(temperature=temperature))[3] for temperature in (4.0, 2.0, 1.0, 0.5, 0.2, 0.05)]
    assert all(high < low for high, low in pairwise(shares))
    assert shares[-1] == DRAWS


def test_ties_at_the_border_of_top_k_all_stay() -> None:
    """No rule could tell them apart; and no token below the border comes in."""
    logits = [2.0, 1.0, 3.0, 1.0, 1.0, 0.5]
    assert abs(distance(counts(logits, Sample(top_k=3)), chances(logits, kept={0, 1, 2, 3, 4}))) < 4.0
    assert abs(distance(counts(logits, Sample(top_k=2)), chances(logits, kept={0, 2}))) < 4.0


@pytest.mark.parametrize(
    ("top_p", "kept"),
    [(0.01, {2}), (0.39, {2}), (0.41, {2, 0}), (0.69, {2, 0}), (0.71, {2, 0, 3}), (0.89, {2, 0, 3}), (0.91, None)],
)
def test_top_p_keeps_the_token_that_crosses_the_threshold(top_p: float, kept: set[int] | None) -> None:
    logits = torch.tensor([[0.3, 0.1, 0.4, 0.2]]).log()
    narrowed = Sample(top_p=top_p).narrow(logits)[0]
    assert {i for i in range(4) if narrowed[i] > -math.inf} == (kept or {0, 1, 2, 3})
    assert torch.equal(narrowed[narrowed > -math.inf], logits[0][narrowed > -math.inf]), "what stays, stays as it was"


def test_each_row_is_narrowed_by_itself() -> None:
    logits = torch.tensor([[0.4, 0.3, 0.2, 0.1], [0.1, 0.1, 0.1, 0.7]]).log()
    for search, wanted in ((Sample(top_k=2), [{0, 1}, {0, 1, 2, 3}]), (Sample(top_p=0.65), [{0, 1}, {3}])):
        narrowed = search.narrow(logits)
        assert [{i for i in range(4) if row[i] > -math.inf} for row in narrowed] == wanted


# -- errors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "prompts",
    [
        ([[1, 2], []],),
        ([[]],),
        (torch.zeros(2, 0, dtype=torch.long),),
        (torch.tensor([[1, 2], [3, 4]]), torch.tensor([[True, True], [False, False]])),
    ],
    ids=["one_of_two", "one_of_one", "no_columns", "all_padding"],
)
def test_an_empty_prompt_is_refused(prompts: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match="wanted a token in every prompt, came an empty one"):
        make().generate(*prompts)


@pytest.mark.parametrize("prompts", [[], torch.zeros(0, 3, dtype=torch.long)], ids=["list", "tensor"])
def test_no_prompt_is_refused(prompts: Any) -> None:
    with pytest.raises(ValueError, match="wanted at least one prompt, came none"):
        make().generate(prompts)


@every_mode
@pytest.mark.parametrize("max_new", [0, -3])
def test_no_step_is_refused(mode: str, max_new: int) -> None:
    with pytest.raises(ValueError, match=f"wanted max_new as an integer of at least 1, came {max_new}"):
        generate(make(mode), PROMPTS, max_new=max_new)


def test_learned_positions_are_used_to_the_last_and_not_beyond() -> None:
    """The last token written is never read, and needs no position."""
    model = make(positions=Learned())
    longest = MAX_LENGTH - len(PROMPTS[0]) + 1
    assert_same(
        answers(generate(model, PROMPTS, max_new=longest)), [alone(model, prompt, longest) for prompt in PROMPTS]
    )
    said = f"need {MAX_LENGTH + 1} positions, but this model has learned {MAX_LENGTH}; lower max_new"
    with pytest.raises(ValueError, match=said):
        generate(model, PROMPTS, max_new=longest + 1)
    # Padding needs no position either.
    wide = torch.cat((torch.zeros(1, MAX_LENGTH, dtype=torch.long), torch.tensor([PROMPTS[1]])), dim=1)
    found = model.generate(wide, torch.arange(MAX_LENGTH + 2)[None] >= MAX_LENGTH, max_new=3)
    assert_same(answers(found), [alone(model, PROMPTS[1], 3)])


def test_learned_positions_of_an_encoder_decoder() -> None:
    model = make("encoder_decoder", positions=Learned())
    found = answers(generate(model, PROMPTS, max_new=MAX_LENGTH))
    assert_same(found, [alone(model, prompt, MAX_LENGTH) for prompt in PROMPTS])
    with pytest.raises(ValueError, match=f"need {MAX_LENGTH + 1} positions, but this model has learned {MAX_LENGTH}"):
        generate(model, PROMPTS, max_new=MAX_LENGTH + 1)


@pytest.mark.parametrize("positions", ["sinusoidal", "index", "rotary", "alibi", "relative", "no_positions"])
def test_only_learned_positions_end(positions: str) -> None:
    found = generate(make(positions=POSITIONS[positions]), PROMPTS, max_new=MAX_LENGTH + 5)
    assert found.tokens.shape[1] == MAX_LENGTH + 5


def test_padding_with_a_list_is_refused() -> None:
    with pytest.raises(ValueError, match="padding goes with prompts as a tensor; a list of prompts needs none"):
        make().generate(PROMPTS, torch.ones(3, 6, dtype=torch.bool))


@pytest.mark.parametrize(
    ("prompts", "padding", "came"),
    [
        (torch.tensor([1, 2, 3]), None, "(3,) with padding None"),
        (torch.ones(2, 3, dtype=torch.long), torch.ones(2, 4, dtype=torch.bool), "(2, 3) with padding (2, 4)"),
        (torch.ones(2, 3, dtype=torch.long), torch.ones(2, dtype=torch.bool), "(2, 3) with padding (2,)"),
    ],
    ids=["one_dimension", "too_wide", "one_a_row"],
)
def test_wrong_shapes_are_refused(prompts: Tensor, padding: Tensor | None, came: str) -> None:
    said = f"wanted prompts (batch, length) and padding of the same shape, came {came}"
    with pytest.raises(ValueError, match=re.escape(said)):
        make().generate(prompts, padding)


@pytest.mark.parametrize("prompts", [[1, 2, 3], 5], ids=["flat_list", "number"])
def test_prompts_that_are_no_lists_are_refused(prompts: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="generate: wanted"):
        make().generate(prompts)


@pytest.mark.parametrize("prompts", [torch.tensor([[1.7, 2.0]]), [[1.7, 2.0]]], ids=["tensor", "list"])
def test_tokens_that_are_no_integers_are_refused(prompts: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="wanted integers"):
        make().generate(prompts, max_new=1)


@every_mode
def test_unknown_tokens_are_refused(mode: str) -> None:
    said = f"wanted numbers from 0 to {VOCAB - 1}, came 2 to {VOCAB}"
    with pytest.raises(ValueError, match=said):
        generate(make(mode), [[2, VOCAB]])


def test_more_than_a_cache_holds_is_refused() -> None:
    model, cache = make(), Cache(1, 3)
    tokens = torch.tensor([PROMPTS[0]])
    with torch.no_grad():
        model(tokens[:, :2], cache=cache)
        with pytest.raises(ValueError, match="the cache holds 3 tokens a row, wanted 4; make it with a larger"):
            model(tokens[:, 2:4], cache=cache)


def test_a_cache_that_refused_goes_on_where_it_stood() -> None:
    model, cache = make(), Cache(1, 3)
    tokens = torch.tensor([PROMPTS[0]])
    with torch.no_grad():
        model(tokens[:, :2], cache=cache)
        with pytest.raises(ValueError, match="the cache holds 3"):
            model(tokens[:, 2:4], cache=cache)
        assert_close(model(tokens[:, 2:3], cache=cache), model(tokens[:, :3])[:, 2:])


@pytest.mark.parametrize(
    "fields",
    [
        {"temperature": 0.0},
        {"temperature": -1.0},
        {"top_k": 0},
        {"top_k": 2.0},
        {"top_p": 0.0},
        {"top_p": 1.5},
        {"seed": 0.5},
    ],
    ids=str,
)
def test_samplings_that_cannot_be_are_refused(fields: dict[str, Any]) -> None:
    ((name, value),) = fields.items()
    with pytest.raises(SpecError, match=f"{name}: wanted .*, came {value}"):
        Sample(**fields)


# -- a cache in other hands ----------------------------------------------------------------------------------


@every_mode
@pytest.mark.parametrize("positions", POSITIONS.values(), ids=POSITIONS)
def test_a_cache_goes_on_from_the_rows_it_is_told(mode: str, positions: Positions) -> None:
    """After reorder, row i goes on as rows[i] would have: its keys, its padding, its positions, its source."""
    model = make(mode, positions=positions)
    tokens, real = padded([[4, 8, 2, 6, 1], [5, 3, 9], [9, 2, 7, 1]], "left")
    source, source_real = padded(PROMPTS, "right")
    order = torch.tensor([2, 0, 0])
    new = torch.tensor([[3, 8], [6, 6], [2, 10]])
    cache = Cache(3, 7)
    with torch.no_grad():
        if isinstance(model, EncoderDecoder):
            memory = model.encode(source, source_real)
            model.decode(tokens, memory, source_real, real, cache=cache)
        else:
            model(tokens, real, cache=cache)
        cache.reorder(order)
        whole, whole_real = torch.cat((tokens[order], new), 1), torch.cat((real[order], torch.ones(3, 2).bool()), 1)
        for column in range(2):
            token = new[:, column : column + 1]
            if isinstance(model, EncoderDecoder):
                came = model.decode(token, memory[order], source_real[order], cache=cache)
                wanted = model.decode(whole, memory[order], source_real[order], whole_real)
            else:
                came, wanted = model(token, cache=cache), model(whole, whole_real)
            assert_close(came, wanted[:, 5 + column : 6 + column])


@pytest.mark.parametrize("cuts", [(0, 1, 2, 3, 4, 5, 6), (0, 6), (0, 2, 6), (0, 4, 5, 6)], ids=str)
@pytest.mark.parametrize("attention", ATTENTIONS.values(), ids=ATTENTIONS)
def test_a_prompt_may_be_read_in_pieces(cuts: tuple[int, ...], attention: Any) -> None:
    model = make(attention=attention, positions=Relative(buckets=4, max_distance=6))
    tokens, cache = torch.tensor([PROMPTS[0]]), Cache(1, 9)
    with torch.no_grad():
        pieces = [model(tokens[:, begin:end], cache=cache) for begin, end in pairwise(cuts)]
        assert_close(torch.cat(pieces, dim=1), model(tokens))


def test_a_search_may_be_named() -> None:
    model = make()
    assert_same(answers(model.generate(PROMPTS, search="greedy")), answers(model.generate(PROMPTS, search=Greedy())))
    with pytest.raises(ValueError, match="unknown search 'beem': did you mean 'beam'"):
        model.generate(PROMPTS, search="beem")


@pytest.mark.parametrize("special", [{"eos": VOCAB}, {"pad": -1}], ids=str)
def test_special_tokens_outside_the_vocabulary_are_refused(special: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=f"wanted {next(iter(special))} from 0 to {VOCAB - 1}, came"):
        make().generate(PROMPTS, **special)


def test_a_model_without_a_head_is_refused() -> None:
    with pytest.raises(ValueError, match="this model has no head"):
        make(head=NoHead()).generate(PROMPTS)


def test_all_of_the_probability_is_all_of_the_tokens() -> None:
    logits = torch.randn(1, 50_000, generator=torch.Generator().manual_seed(0))
    assert torch.isfinite(Sample(top_p=1.0).narrow(logits)).all()
