"""The command line: one file per verb. Only the verb that was asked for is imported, so that help answers at once."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import NamedTuple

import typer

from addnorm import __version__
from addnorm.cli.console import errors


class Verb(NamedTuple):
    module: str
    help: str
    example: str


VERBS = {
    "show": Verb(
        "addnorm.cli.show",
        "Show all designs, or one: its formula, picture, constants, cost, and where it departs from its paper.",
        "addnorm show b2t --depth 18 --svg b2t.svg",
    ),
}


def make_app(asked: list[str]) -> typer.Typer:
    examples = "\n\n".join(f"    {verb.example}" for verb in VERBS.values())
    app = typer.Typer(
        name="addnorm",
        help="Transformers with the residual + normalization arrangement as a first-class choice: name a design, see "
        "it, build it right in every model shape.",
        epilog=f"Examples:\n\n{examples}",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def addnorm(
        version: bool = typer.Option(
            False, "--version", help="Print the version and leave.", is_eager=True, callback=_print_version
        ),
    ) -> None:
        """The options before a verb."""

    for name, verb in VERBS.items():
        command = import_module(verb.module).run if name in asked else _unasked
        app.command(name, help=verb.help, epilog=f"Example: {verb.example}")(command)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"addnorm {__version__}")
        raise typer.Exit


def _unasked() -> None:
    """Stands for a verb in the list of verbs."""


def main() -> None:
    with errors():
        make_app(sys.argv[1:])()
