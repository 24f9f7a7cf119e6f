"""addnorm show, as a person runs it."""

import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

from addnorm import CATALOGUE, __version__


def addnorm(*arguments, columns="200", encoding="utf-8"):
    return subprocess.run(
        [sys.executable, "-m", "addnorm", *arguments],
        capture_output=True,
        encoding="utf-8",
        env={"PATH": "/usr/bin:/bin", "COLUMNS": columns, "PYTHONIOENCODING": encoding, "OMP_NUM_THREADS": "1"},
        timeout=120,
    )


def test_version():
    assert addnorm("--version").stdout.strip() == f"addnorm {__version__}"


def test_help_gives_an_example_per_verb():
    result = addnorm("--help")
    assert result.returncode == 0
    assert "addnorm show b2t" in result.stdout


def test_help_answers_before_torch_is_loaded():
    code = "import sys; from addnorm.cli import make_app; make_app(['--help']); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"


def test_the_table_names_every_design():
    result = addnorm("show")
    assert result.returncode == 0
    for name in CATALOGUE:
        assert f"{name} " in result.stdout
    assert "x <- norm(x + F(x))" in result.stdout


def test_one_design_shows_formula_picture_constants_cost_and_departures():
    result = addnorm("show", "deep_norm", "--mode", "encoder_decoder", "--depth", "18")
    assert result.returncode == 0, result.stderr
    shown = result.stdout
    assert "x <- norm(alpha x + F(x))" in shown
    assert "1.999" in shown
    assert "2.711" in shown  # the golden alphas at 18-18
    assert "0.2608" in shown
    assert "self-attention" in shown
    assert "NOTE[DIFF]" in shown
    assert "against pre_ln" in shown


def test_the_picture_as_a_file(tmp_path):
    file = tmp_path / "b2t.svg"
    assert addnorm("show", "b2t", "--svg", str(file)).returncode == 0
    assert ET.parse(file).getroot().tag.endswith("svg")
    assert list(tmp_path.iterdir()) == [file]


def test_a_terminal_without_unicode_gets_ascii():
    result = addnorm("show", "pre_ln", encoding="ascii")
    assert result.returncode == 0, result.stderr
    assert result.stdout.isascii()


def test_a_bundle_shows_its_design():
    shown = addnorm("show", "gpt2").stdout
    assert "rescaled" in shown
    assert "gelu_tanh" in shown


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["show", "pre_nl"], "did you mean 'pre_ln'"),
        (["show", "b2t", "--mode", "decodr"], "did you mean 'decoder'"),
        (["show", "--svg", "x.svg"], "--svg draws one design"),
        (["show", "b2t", "--svg", "/nowhere/x.svg"], "does not exist"),
        (["show", "b2t", "--width", "100"], "divisible by heads"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_two(arguments, sentence):
    result = addnorm(*arguments)
    assert result.returncode == 2
    assert sentence in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
