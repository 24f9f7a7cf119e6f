"""Whatever is wrong: the message says what was wanted, what came, and what to do."""

import pytest
import torch

from addnorm.layers.cache import Cache
from addnorm.models import BUNDLES, DecoderSpec, build, make_spec
from tests.models.small import SIZES, SOURCE, TOKENS


def decoder(**choices):
    return build("pre_ln", **(SIZES | choices))


def pair():
    return build("pre_ln", mode="encoder_decoder", **SIZES)


def typed(types):
    return make_spec("bert", **SIZES).build()(TOKENS, types=types)


def read_on_past_the_end():
    model, cache = decoder(positions="learned", max_length=4), Cache(2, 8)
    model(TOKENS, cache=cache)
    model(TOKENS[:, :1], cache=cache)


BAD = {
    # -- a model that cannot be: wanted, came, to do
    "unknown design": (lambda: build("prenorm"), "unknown design or bundle", "'prenorm'", "Known:"),
    "width and heads": (lambda: decoder(width=9), "divisible by heads", "width 9 and heads 2", "change one"),
    "no layers": (lambda: decoder(depth=0), "depth: wanted greater than or equal to 1", "came 0", ""),
    "half a layer": (lambda: decoder(depth=2.5), "depth: wanted a valid integer", "came 2.5", ""),
    "depth in words": (lambda: decoder(depth="two"), "depth: wanted a valid integer", "came 'two'", ""),
    "one word": (lambda: decoder(vocab=1), "vocab: wanted greater than or equal to 2", "came 1", ""),
    "not a number": (
        lambda: make_spec("scaled").replace({"arrangement.constant": float("nan")}),
        "constant: wanted a finite number",
        "came nan",
        "",
    ),
    "not a number in JSON": (
        lambda: DecoderSpec.from_json('{"kind": "decoder", "dropout": {"kind": "dropout", "branch": NaN}}'),
        "branch: wanted",
        "came nan",
        "",
    ),
    "two things at once": (lambda: build("rezero", norm="rms_norm"), "norm=rms_norm", "no norm", "drop one of them"),
    "a rate of one": (lambda: decoder(dropout=1.0), "wanted less than 1", "came 1.0", ""),
    # -- tokens
    "a list": (lambda: decoder()([[1, 2]]), "tokens: wanted a tensor", "came list", "torch.tensor"),
    "one dimension": (lambda: decoder()(TOKENS[0]), "wanted shape (batch, length)", "came (4,)", "add or drop"),
    "empty sequence": (lambda: decoder()(TOKENS[:, :0]), "at least one token", "shape (2, 0)", "; "),
    "too large": (lambda: decoder()(TOKENS + 5), "from 0 to 10", "came 6 to 13", "check the tokenizer"),
    "negative": (lambda: decoder()(TOKENS - 2), "from 0 to 10", "came -1 to 6", "check the tokenizer"),
    "floats": (lambda: decoder()(TOKENS.float()), "wanted integers", "came torch.float32", ".long()"),
    "booleans": (lambda: decoder()(TOKENS.bool()), "wanted integers", "came torch.bool", ".long()"),
    "learned positions too short": (
        lambda: decoder(positions="learned", max_length=3)(TOKENS),
        "at most 3 tokens",
        "came 4",
        "larger max_length",
    ),
    "learned positions too short, cached": (read_on_past_the_end, "at most 4", "came 5", "larger max_length"),
    "types of a model without": (
        lambda: decoder()(TOKENS, types=torch.zeros_like(TOKENS)),
        "a model without them",
        "token types were given",
        "set embedding.types",
    ),
    "types too large": (lambda: typed(torch.full_like(TOKENS, 2)), "types: wanted", "came 2", ""),
    "types of another shape": (lambda: typed(TOKENS[:, :2] * 0), "types: wanted", "came (2, 2)", ""),
    "float types": (lambda: typed(torch.zeros(2, 4)), "types: wanted integers", "came torch.float32", ""),
    # -- masks
    "mask of another shape": (
        lambda: decoder()(TOKENS, torch.ones(2, 3, dtype=torch.bool)),
        "padding: wanted the tokens' shape (2, 4)",
        "came (2, 3)",
        "; ",
    ),
    "mask of integers": (
        lambda: decoder()(TOKENS, torch.ones_like(TOKENS)),
        "padding: wanted booleans",
        "came torch.int64",
        ".bool()",
    ),
    "mask as a list": (lambda: decoder()(TOKENS, [[True] * 4] * 2), "padding: wanted", "came list", ""),
    # -- two sequences
    "another number of targets": (
        lambda: pair()(SOURCE, TOKENS[:1]),
        "wanted",
        "came",
        "; ",
    ),
    "another width of memory": (
        lambda: pair().decode(TOKENS, torch.ones(2, 3, 5)),
        "memory: wanted (2, source length, 8)",
        "came (2, 3, 5)",
        "",
    ),
    "source words out of range": (
        lambda: pair()(SOURCE + 5, TOKENS),
        "source: wanted numbers from 0 to 10",
        "came 9 to 14",
        "check the tokenizer",
    ),
    "target words out of range": (
        lambda: pair()(SOURCE, TOKENS + 5),
        "target: wanted numbers from 0 to 10",
        "came 6 to 13",
        "check the tokenizer",
    ),
    "source mask of the target's shape": (
        lambda: pair()(SOURCE, TOKENS, torch.ones_like(TOKENS).bool()),
        "source_padding: wanted the tokens' shape (2, 3)",
        "came (2, 4)",
        "",
    ),
    "target mask of the source's shape": (
        lambda: pair()(SOURCE, TOKENS, None, torch.ones_like(SOURCE).bool()),
        "target_padding: wanted the tokens' shape (2, 4)",
        "came (2, 3)",
        "",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_the_message_says_all_three(name):
    action, wanted, came, to_do = BAD[name]
    with pytest.raises((ValueError, TypeError)) as caught:
        action()
    said = str(caught.value)
    assert wanted in said
    assert came in said
    assert to_do in said
    assert "\n" not in said
    assert "errors.pydantic.dev" not in said


def test_a_source_and_a_target_of_different_lengths_of_batch_are_both_named():
    """The caller handed over a source and a target, and never saw a memory."""
    with pytest.raises(ValueError, match=r"(?s)source.*target|target.*source"):
        pair()(SOURCE, TOKENS[:1])


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8], ids=str)
def test_small_integers_are_tokens_too(dtype):
    model = decoder()
    assert torch.equal(model(TOKENS.to(dtype)), model(TOKENS))


def test_padding_is_no_token_and_needs_no_position():
    """Three real tokens of five fit into three learned positions."""
    model = decoder(positions="learned", max_length=3)
    tokens, real = torch.tensor([[0, 0, 1, 2, 3]]), torch.tensor([[False, False, True, True, True]])
    torch.testing.assert_close(model(tokens, real)[:, 2:], model(tokens[:, 2:]))


def test_an_empty_batch_is_an_empty_answer():
    assert decoder()(TOKENS[:0]).shape == (0, 4, 11)


def test_a_bundle_is_not_changed_by_what_is_built_from_it():
    before = BUNDLES["gpt2"].fingerprint()
    build("gpt2", **SIZES)
    assert BUNDLES["gpt2"].fingerprint() == before
