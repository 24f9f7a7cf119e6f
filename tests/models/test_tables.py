"""Models of columns: every column is read, categories of one column never meet another's, wrong tables are told."""

import pytest
import torch
from torch.nn import functional as F

from addnorm.models import FTTransformerSpec, TabTransformerSpec, make_spec
from tests.models.small import assert_lives, batch_for
from tests.tolerances import assert_close

SIZES = {"width": 8, "heads": 2, "depth": 2}
TABLES = {
    "numbers": {"numeric": 3, "categories": ()},
    "categories": {"numeric": 0, "categories": (2, 4, 3)},
    "both": {"numeric": 2, "categories": (3, 5)},
}
MODELS = {
    **{f"ft, {name}": FTTransformerSpec(**table, **SIZES) for name, table in TABLES.items()},
    **{f"tab, {name}": TabTransformerSpec(**TABLES[name], **SIZES) for name in ("categories", "both")},
}
NUMBERS, CATEGORIES = torch.tensor([[0.5, -1.0], [2.0, 0.1]]), torch.tensor([[0, 4], [2, 1]])

every_model = pytest.mark.parametrize("name", MODELS)


@every_model
def test_lives(name):
    model = MODELS[name].build()
    assert assert_lives(model).shape == (2, 1)


@every_model
def test_every_column_has_a_say(name):
    spec = MODELS[name].replace({"outputs": 3})
    model = spec.build().eval()
    numeric, categories = batch_for(model)
    before = model(numeric, categories)
    for column in range(spec.numeric):
        # Two moves that are not opposite: TabTransformer normalises each row of numbers.
        changed = numeric.clone()
        changed[:, column] += torch.tensor([3.0, -5.0])
        assert not torch.allclose(model(changed, categories), before), f"numeric {column}"
    for column in range(len(spec.categories)):
        changed = categories.clone()
        changed[:, column] += 1
        assert not torch.allclose(model(numeric, changed), before), f"category {column}"


@every_model
def test_rows_do_not_meet(name):
    model = MODELS[name].build().eval()
    batch = batch_for(model)
    alone = model(*(None if columns is None else columns[:1] for columns in batch))
    torch.testing.assert_close(model(*batch)[:1], alone)


@every_model
def test_any_design(name):
    for design in ("post_ln", "b2t", "hyper_connections", "dlcl"):
        assert_lives(MODELS[name].replace({"arrangement": make_spec(design).arrangement}).build())


def test_ft_tokens_are_their_formula():
    model = FTTransformerSpec(**TABLES["both"], **SIZES).build()
    t = model.tokenizer
    tokens = t(NUMBERS, CATEGORIES)
    assert torch.equal(tokens[:, 0], t.cls.expand(2, -1))
    assert_close(tokens[0, 2], -1.0 * t.slope[1] + t.bias[1])
    assert_close(tokens[1, 3], t.table[2] + t.bias[2])
    assert_close(tokens[0, 4], t.table[3 + 4] + t.bias[3])


def test_ft_reads_its_answer_from_cls():
    spec = FTTransformerSpec(**TABLES["both"], **SIZES)
    model, bare = spec.build().eval(), spec.replace({"outputs": None}).build().eval()
    seen = []
    bare.stack.register_forward_hook(lambda module, args, x: seen.append(x))
    features = bare(NUMBERS, CATEGORIES)
    assert torch.equal(features, seen[0][:, 0])
    assert_close(model(NUMBERS, CATEGORIES), model.head(F.relu(features)))


def test_ft_leaves_out_the_very_first_norm():
    first, second = (FTTransformerSpec(**SIZES).build().stack.blocks[layer].connections for layer in (0, 1))
    assert not list(first["self_attention"].parameters())
    assert list(first["feed_forward"].parameters())
    assert list(second["self_attention"].parameters())


def test_tab_marks_each_token_with_its_column():
    model = TabTransformerSpec(**TABLES["both"], **(SIZES | {"column_share": 0.25})).build()
    tokens = model.tokenizer(CATEGORIES)
    assert torch.equal(tokens[0, :, :2], model.tokenizer.column)
    assert torch.equal(tokens[0, 1, 2:], model.tokenizer.table[3 + 4])


def test_tab_without_a_mark():
    model = TabTransformerSpec(**TABLES["both"], **(SIZES | {"column_share": 0.0})).build()
    assert model.tokenizer.column is None
    assert torch.equal(model.tokenizer(CATEGORIES)[0, 0], model.tokenizer.table[0])


def test_tab_s_perceptron_is_four_and_two_times_its_input():
    model = TabTransformerSpec(**TABLES["both"], **SIZES).build()
    fan_in = 2 * 8 + 2
    assert [(layer.in_features, layer.out_features) for layer in (*model.hidden, model.head)] == [
        (fan_in, 4 * fan_in),
        (4 * fan_in, 2 * fan_in),
        (2 * fan_in, 1),
    ]


# -- wrong tables ------------------------------------------------------------------------------------------

WRONG = {
    "no numbers": ((None, CATEGORIES), r"numeric: wanted 2 columns, came none"),
    "no categories": ((NUMBERS, None), r"categories: wanted 2 columns, came none"),
    "too many numbers": ((torch.ones(2, 3), CATEGORIES), r"numeric: wanted shape \(rows, 2\), came \(2, 3\)"),
    "one dimension": ((torch.ones(2), CATEGORIES), r"numeric: wanted shape \(rows, 2\), came \(2,\)"),
    "rows differ": ((torch.ones(3, 2), CATEGORIES), "wanted as many rows in both, came 3 numeric and 2 categorical"),
    "whole numbers": ((torch.ones(2, 2).long(), CATEGORIES), r"numeric: wanted floats, came .*int64; convert"),
    "float categories": ((NUMBERS, CATEGORIES.float()), r"categories: wanted integers, came .*float32; encode"),
    "too large": ((NUMBERS, CATEGORIES + 1), r"categories: wanted 0 to 2 in column 0, came 1 to 3"),
    "negative": ((NUMBERS, CATEGORIES - 1), r"categories: wanted 0 to 2 in column 0, came -1 to 1"),
}


@pytest.mark.parametrize("kind", ["ft, both", "tab, both"])
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_table_is_told(kind, wrong):
    batch, said = WRONG[wrong]
    with pytest.raises((ValueError, TypeError), match=said):
        MODELS[kind].build()(*batch)


def test_a_column_too_many_is_told():
    with pytest.raises(ValueError, match=r"categories: wanted 0 columns, came \(2, 2\); leave out"):
        MODELS["ft, numbers"].build()(torch.ones(2, 3), CATEGORIES)
