"""Small doors that people try first."""

import pytest
import torch

import addnorm
from addnorm.arrangements import CATALOGUE, Arrangement, PreLN


@pytest.mark.parametrize("name", CATALOGUE)
@pytest.mark.parametrize("mode", ["ft_transformer", "tab_transformer"])
def test_every_design_reads_tables(name, mode):
    model = addnorm.build(name, mode=mode, numeric=3, categories=(4, 2), outputs=2, width=16, heads=2, depth=2)
    output = model(torch.randn(5, 3), torch.ones(5, 2, dtype=torch.long))
    output.sum().backward()
    assert output.shape == (5, 2)
    assert torch.isfinite(output).all()


def test_columns_are_for_tables():
    with pytest.raises(addnorm.SpecError, match="numeric: a model of kind decoder has no such field"):
        addnorm.build("pre_ln", numeric=3)


def test_a_spec_prints_as_what_it_is():
    assert str(CATALOGUE["post_ln"]) == repr(CATALOGUE["post_ln"])
    assert str(CATALOGUE["no_norm"]) == "NoNormalisation()"


def test_a_class_where_an_object_is_wanted():
    with pytest.raises(addnorm.SpecError, match=r"make it: PreLN\(\)"):
        addnorm.build(PreLN)


def test_the_base_of_all_specs_is_no_family():
    with pytest.raises(addnorm.SpecError, match="call this on one, such as ModelSpec"):
        addnorm.Spec.from_json('{"kind": "decoder"}')


def test_a_meta_model_allocates_nothing_and_is_born_later():
    model = addnorm.build("pre_ln", device="meta", depth=1, width=2**17, heads=8, vocab=20)
    assert all(parameter.is_meta for parameter in model.parameters())
    with pytest.raises(ValueError, match="call to_empty"):
        model.born(0)


@pytest.mark.parametrize("seed", ["a", 1.5, True])
def test_a_seed_is_an_integer(seed):
    with pytest.raises(TypeError, match="seed: wanted an integer"):
        addnorm.build("pre_ln", width=8, heads=2, depth=1, seed=seed)


def test_a_design_that_forgets_to_return_its_connection():
    class Forgets(Arrangement, kind="test_forgets"):
        def connect(self, site):
            pass

    with pytest.raises(TypeError, match=r"Forgets\.connect: wanted a Connection, came None; is a return missing"):
        addnorm.build(Forgets(), width=8, heads=2, depth=1)


def test_calibrate_is_called_as_the_model_is():
    model = addnorm.build("admin", mode="encoder_decoder", width=8, heads=2, depth=1)
    tokens = torch.ones(2, 3, dtype=torch.long)
    with pytest.raises(TypeError, match=r"calibrate\(model, source, target\)"):
        addnorm.calibrate(model, (tokens, tokens))


def test_anybodys_design_can_be_drawn():
    assert "self-attention" in addnorm.draw("b2t")
    assert addnorm.draw(PreLN()) == addnorm.draw("pre_ln")
