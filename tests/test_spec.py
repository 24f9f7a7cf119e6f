"""Spec: what every configurable thing of the package shares, tried on a family of its own."""

import json

import pytest

from addnorm.layers.norms import Norm
from addnorm.models import DecoderSpec
from addnorm.spec import Bool, Count, Float, Share, Spec, SpecError, dump_yaml, load_yaml


class Fruit(Spec, family="test_fruit"):
    sweetness: Float = 1.0


class Apple(Fruit, kind="apple"):
    seeds: Count = 5
    ripe: Bool = True


class Pear(Fruit, kind="pear"):
    name: str = "abate"
    share: Share = 0.5


class Basket(Spec, family="test_basket", kind="basket"):
    best: Fruit = Apple()
    others: tuple[Fruit, ...] = ()
    note: str | None = None


class Cellar(Spec, family="test_cellar", kind="cellar"):
    basket: Basket = Basket()
    spare: Basket = Basket()
    shelves: Count = 3


FULL = Cellar(
    basket=Basket(best=Pear(name="no", share=0.25), others=(Apple(seeds=7), Pear(), Apple(ripe=False))),
    spare=Basket(best=Apple(sweetness=1e-3), note="1e-3"),
    shelves=4,
)


# -- families and kinds ------------------------------------------------------------------------------------


def test_a_member_is_found_by_its_kind():
    assert Fruit.named("pear") is Pear


def test_two_families_may_use_one_kind():
    class Tree(Spec, family="test_tree"):
        pass

    class AppleTree(Tree, kind="apple"):
        pass

    assert Tree.named("apple") is AppleTree
    assert Fruit.named("apple") is Apple


@pytest.mark.parametrize(
    "value",
    [Apple(seeds=2), {"kind": "apple", "seeds": 2}, {"seeds": 2, "kind": "apple"}],
    ids=["instance", "mapping", "mapping, kind last"],
)
def test_a_field_takes_a_member_in_every_form(value):
    assert Basket(best=value).best == Apple(seeds=2)


def test_a_field_takes_a_bare_kind():
    assert Basket(best="pear", others=["apple"]) == Basket(best=Pear(), others=(Apple(),))


def test_a_concrete_class_needs_no_kind_in_its_mapping():
    assert Apple.parse({"seeds": 2}) == Apple(seeds=2)


def test_a_family_needs_a_kind_in_a_mapping():
    with pytest.raises(SpecError, match="add 'kind'"):
        Fruit.parse({"seeds": 2})


@pytest.mark.parametrize("value", [3, None, ["apple"], 1.5])
def test_what_cannot_be_a_member_is_refused(value):
    with pytest.raises(SpecError, match="wanted a test_fruit, came"):
        Fruit.parse(value)


def test_a_member_of_another_family_is_refused():
    with pytest.raises(SpecError, match="wanted a test_fruit"):
        Basket(best=Basket())


def test_a_kind_that_is_not_the_class_s_own_is_refused():
    with pytest.raises(SpecError, match="wanted kind 'apple', came 'pear'"):
        Apple(kind="pear")


def test_a_sibling_s_kind_is_not_called_unknown():
    """Pear is a known fruit, but no apple: the error must not offer the very name that it refuses."""
    with pytest.raises(SpecError) as caught:
        Apple.parse("pear")
    assert "did you mean 'pear'" not in str(caught.value)


def test_an_unknown_kind_gives_the_nearest_names():
    with pytest.raises(SpecError, match=r"best: unknown test_fruit 'aple': did you mean 'apple'.* Known: apple, pear"):
        Basket(best="aple")


def test_an_unknown_option_gives_the_nearest_names():
    with pytest.raises(SpecError, match=r"no option 'seed': did you mean 'seeds'\? Known: ripe, seeds, sweetness"):
        Apple(seed=3)


def test_an_unknown_option_deep_inside_gives_the_names_of_its_own_class():
    with pytest.raises(SpecError, match=r"basket: Basket: best: Pear: no option 'nam': did you mean 'name'\?"):
        Cellar.parse({"basket": {"best": {"kind": "pear", "nam": "x"}}})


def test_every_fault_is_told_at_once():
    with pytest.raises(SpecError) as caught:
        Apple(seeds=0, ripe="yes")
    assert "seeds" in str(caught.value)
    assert "ripe" in str(caught.value)


@pytest.mark.parametrize("key", ["self", "cls", "fields", 1, None], ids=str)
def test_any_strange_key_is_an_unknown_option(key):
    with pytest.raises(SpecError):
        Fruit.parse({"kind": "apple", key: 1})


# -- classes of somebody else's ----------------------------------------------------------------------------


@pytest.fixture
def third_party(monkeypatch):
    """A norm that the package has never heard of; gone again after the test."""
    monkeypatch.setattr(Norm, "registry", dict(Norm.registry))

    class Halving(Norm, kind="test_halving"):
        by: Float = 2.0

        def build(self, width):
            return lambda x: x / self.by

    return Halving


def test_a_third_party_class_is_a_value_of_our_fields(third_party):
    spec = DecoderSpec.from_dict(
        {"kind": "decoder", "arrangement": {"kind": "pre_ln", "norm": {"kind": "test_halving", "by": 4.0}}}
    )
    assert spec.arrangement.norm == third_party(by=4.0)
    assert DecoderSpec.from_json(spec.to_json()) == spec


def test_a_taken_kind_is_refused_and_its_holder_named():
    with pytest.raises(SpecError, match=r"'apple' is taken by .*test_spec\.Apple; choose another kind"):

        class Impostor(Fruit, kind="apple"):
            pass

    assert Fruit.named("apple") is Apple


def define_in(module, family):
    """As if a module of that name said `class Plum(family, kind="plum")`."""
    names = {"__name__": module, "Family": family}
    exec("class Plum(Family, kind='plum'):\n    pass", names)
    return names["Plum"]


def new_family():
    class Stone(Spec, family="test_stone"):
        pass

    return Stone


def test_a_class_defined_again_replaces_itself():
    family = new_family()
    define_in("notebook", family)
    again = define_in("notebook", family)
    assert family.named("plum") is again


def test_a_class_of_the_same_name_in_another_module_is_another_class():
    family = new_family()
    define_in("orchard", family)
    with pytest.raises(SpecError, match=r"taken by orchard\.Plum"):
        define_in("market", family)


# -- values ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"seeds": True},
        {"seeds": "3"},
        {"seeds": 3.5},
        {"seeds": 0},
        {"sweetness": True},
        {"sweetness": "1.0"},
        {"ripe": 1},
        {"ripe": "true"},
        {"sweetness": float("nan")},
        {"sweetness": float("inf")},
        {"sweetness": float("-inf")},
        {"sweetness": None},
    ],
    ids=str,
)
def test_a_value_of_another_type_is_refused_and_shown(wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(SpecError) as caught:
        Apple(**wrong)
    assert str(caught.value).startswith(f"Apple: {name}: wanted ")
    assert str(caught.value).endswith(f"came {value!r}")


def test_a_whole_number_is_a_number():
    assert Apple(sweetness=2).fingerprint() == Apple(sweetness=2.0).fingerprint()


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_json_s_own_infinities_are_refused(text):
    with pytest.raises(SpecError, match="finite"):
        Fruit.from_json(f'{{"kind": "apple", "sweetness": {text}}}')


def test_frozen():
    with pytest.raises(SpecError, match=r"apple is frozen: seeds cannot be set; use .replace"):
        Apple().seeds = 3


def test_hashable_with_everything_inside():
    again = Cellar.from_json(FULL.to_json())
    assert {FULL: "found"}[again] == "found"
    assert len({FULL, again, Cellar()}) == 2


def test_walk_visits_every_spec_inside():
    kinds = " ".join(spec.kind for spec in FULL.walk())
    assert kinds == "cellar basket pear apple pear apple basket apple"


# -- as data -----------------------------------------------------------------------------------------------


def test_a_subclass_s_fields_survive_a_dump():
    """pydantic writes a field by its declared type, and would leave `name` and `share` out."""
    assert Basket(best=Pear(name="x")).to_dict()["best"] == {
        "kind": "pear",
        "sweetness": 1.0,
        "name": "x",
        "share": 0.5,
    }


def test_a_subclass_s_fields_survive_inside_a_tuple():
    assert FULL.to_dict()["basket"]["others"][0]["seeds"] == 7


def test_a_dump_is_plain_data():
    assert json.loads(json.dumps(FULL.to_dict())) == FULL.to_dict()


@pytest.mark.parametrize("spec", [FULL, Cellar(), Pear(name="")], ids=["full", "defaults", "empty string"])
def test_round_trips(spec):
    assert type(spec).from_dict(spec.to_dict()) == spec
    assert type(spec).from_json(spec.to_json()) == spec
    assert type(spec).from_yaml(spec.to_yaml()) == spec


@pytest.mark.parametrize("text", ["{", "", "kind: apple", "[1, 2"])
def test_what_is_not_json_is_a_spec_error(text):
    with pytest.raises(SpecError, match="wanted JSON"):
        Fruit.from_json(text)


@pytest.mark.parametrize("text", ["null", "3", "[]"])
def test_json_that_is_no_spec_is_a_spec_error(text):
    with pytest.raises(SpecError, match="wanted a test_fruit"):
        Fruit.from_json(text)


# -- YAML --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("1E3", 1000.0),
        ("-2e+2", -200.0),
        (".5", 0.5),
        ("3.", 3.0),
        ("12", 12),
        ("-7", -7),
        ("0123", 123),
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("Off", "Off"),
        ("n", "n"),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("1_000", "1_000"),
        ("'12'", "12"),
    ],
)
def test_yaml_reads_the_core_schema(text, value):
    came = load_yaml(f"key: {text}")["key"]
    assert came == value
    assert type(came) is type(value)


@pytest.mark.parametrize(
    "word",
    [
        *("1e-3", "12", "-7", ".5", "1.0", ".nan", "-.inf", "0x1F", "1:30", "2024-01-01"),
        *("no", "yes", "true", "False", "null", "~", ""),
        *("- a", "a: b", "#", "'", '"', "=", "<<", "&a", "*a", "!t", " padded ", "two\nlines", "tab\t", "é", "a\x85b"),
    ],
)
def test_a_string_survives_yaml_as_a_string(word):
    assert load_yaml(dump_yaml({"key": word})) == {"key": word}
    assert Pear.from_yaml(Pear(name=word).to_yaml()).name == word


@pytest.mark.parametrize("number", [1e-5, 1e-12, 1e22, 0.1, 3.0, 1 / 3, -0.0, 5, 10**20])
def test_a_number_survives_yaml_with_its_type(number):
    came = load_yaml(dump_yaml([number]))[0]
    assert came == number
    assert type(came) is type(number)


def test_a_doubled_yaml_key_is_refused():
    with pytest.raises(SpecError, match="the same key twice in one mapping: 'seeds'"):
        Fruit.from_yaml("kind: apple\nseeds: 3\nseeds: 4\n")


def test_a_doubled_yaml_key_deep_inside_is_refused():
    with pytest.raises(SpecError, match="'note'"):
        Cellar.from_yaml("kind: cellar\nbasket: {kind: basket, note: a, note: b}\n")


@pytest.mark.parametrize(
    "text",
    [
        *("{", "a: b: c", "key: [1", "!!python/object:os.system {}"),
        *("a: !!int 0x1F", "a: !!float no", "a: !!bool maybe", "a: !!timestamp no"),
    ],
)
def test_what_is_not_yaml_is_a_spec_error(text):
    with pytest.raises(SpecError, match="wanted YAML"):
        Fruit.from_yaml(text)


def test_yaml_s_nan_is_refused_by_the_field():
    with pytest.raises(SpecError, match="finite"):
        Fruit.from_yaml("{kind: apple, sweetness: .nan}")


# -- fingerprint -------------------------------------------------------------------------------------------


def test_equal_specs_have_one_fingerprint():
    assert Cellar.from_yaml(FULL.to_yaml()).fingerprint() == FULL.fingerprint()
    assert Basket(best="apple").fingerprint() == Basket().fingerprint()


def test_every_change_changes_the_fingerprint():
    changes = [{}, {"shelves": 5}, {"spare.note": "1E-3"}, {"basket.best.share": 0.26}, {"basket.others": ()}]
    assert len({FULL.replace(change).fingerprint() for change in changes}) == len(changes)


def test_a_fingerprint_tells_families_apart():
    """A norm and a design may both be called `no_norm`."""

    class Logo(Spec, family="test_logo"):
        pass

    class AppleLogo(Logo, kind="apple"):
        pass

    class Bare(Spec, family="test_bare"):
        pass

    class BareApple(Bare, kind="apple"):
        pass

    assert AppleLogo() != BareApple()
    assert AppleLogo().fingerprint() != BareApple().fingerprint()


def test_zero_has_no_sign():
    assert Apple(sweetness=-0.0) == Apple(sweetness=0.0)
    assert Apple(sweetness=-0.0).fingerprint() == Apple(sweetness=0.0).fingerprint()


# -- dotted replace ----------------------------------------------------------------------------------------


def test_replace_leaves_the_original():
    changed = FULL.replace({"shelves": 9})
    assert (changed.shelves, FULL.shelves) == (9, 4)


def test_replace_reaches_down_and_keeps_the_neighbours():
    changed = FULL.replace({"basket.best.share": 0.75})
    assert changed.basket == Basket(best=Pear(name="no", share=0.75), others=FULL.basket.others)
    assert changed.spare == FULL.spare


def test_replace_changes_several_at_once():
    changed = Cellar().replace({"basket.best.seeds": 1, "basket.best.ripe": False, "basket.note": "n", "shelves": 1})
    assert changed == Cellar(basket=Basket(best=Apple(seeds=1, ripe=False), note="n"), shelves=1)


def test_replace_reaches_into_what_it_has_just_put_there():
    changed = Cellar().replace({"basket.best.share": 0.1, "basket.best": Pear(name="b")})
    assert changed.basket.best == Pear(name="b", share=0.1)


def test_replace_takes_names_and_data_as_fields_do():
    assert Cellar().replace({"basket.best": "pear"}).basket.best == Pear()
    assert Cellar().replace({"basket.best": {"kind": "pear", "name": "b"}}).basket.best == Pear(name="b")


def test_replace_validates():
    with pytest.raises(SpecError, match="share: wanted less than or equal to 1, came 2"):
        FULL.replace({"basket.best.share": 2})


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("shelf", "cellar has no field 'shelf': did you mean 'shelves'?"),
        ("basket.bset", "basket has no field 'bset': did you mean 'best'?"),
        ("basket.best.shares", "pear has no field 'shares': did you mean 'share'?"),
        ("", "cellar has no field ''"),
    ],
)
def test_replace_gives_the_nearest_names_of_an_unknown_path(path, said):
    with pytest.raises(SpecError) as caught:
        FULL.replace({path: 1})
    assert said in str(caught.value)


@pytest.mark.parametrize("path", ["shelves.high", "basket.note.text", "basket.others.0.seeds", "basket.best.name.x"])
def test_replace_stops_at_what_is_no_spec(path):
    with pytest.raises(SpecError, match="no fields to change"):
        FULL.replace({path: 1})
