"""Options of a command that are the fields of a model, or of a dataclass."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
import typer
from pydantic import BaseModel, Field
from typer.testing import CliRunner

from hasse.service.cli.terminal.fields import OptionsOf, with_options


class Order(BaseModel):
    """A model with a field of each kind."""

    size: int = Field(default=3, ge=1, le=9, description="How large.")
    color: Literal["red", "blue"] = Field(default="red", description="Which color.")
    weight: float | None = Field(default=None, description="How heavy.")
    gift: bool = Field(default=False, description="Whether it is a gift.")
    hidden: str = Field(default="", description="No option.")


app = typer.Typer()


@app.command()
@with_options
def order(
    *,
    name: Annotated[str, typer.Option()],
    fields: Annotated[
        dict[str, Any], OptionsOf(Order, ("hidden",), {"gift": ("--gift/--no-gift", "-g")})
    ],
) -> None:
    """Print what was ordered."""
    typer.echo(json.dumps({"name": name, **fields}))


def ordered(*arguments: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["--name", "a", *arguments])
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.output)
    return found


def test_options_left_out_have_the_defaults_of_the_fields() -> None:
    assert ordered() == {"name": "a", "size": 3, "color": "red", "weight": None, "gift": False}


def test_options_given_are_values_of_their_types() -> None:
    found = ordered("--size", "5", "--color", "blue", "--weight", "2.5", "-g")
    assert found == {"name": "a", "size": 5, "color": "blue", "weight": 2.5, "gift": True}


@pytest.mark.parametrize(
    "arguments", [("--size", "10"), ("--color", "green"), ("--hidden", "x"), ("--weight", "heavy")]
)
def test_options_outside_their_fields_are_refused(arguments: tuple[str, ...]) -> None:
    assert CliRunner().invoke(app, ["--name", "a", *arguments]).exit_code == 2


def test_help_is_the_description_of_the_fields() -> None:
    text = CliRunner().invoke(app, ["--help"], terminal_width=200).output
    assert "How large." in text
    assert "1<=x<=9" in text


@dataclass(frozen=True)
class Wrapping:
    """Options that several commands share."""

    paper: Annotated[str | None, typer.Option(help="Which paper.")] = None
    ribbon: Annotated[bool, typer.Option("--ribbon", help="Whether there is a ribbon.")] = False


def test_fields_of_a_dataclass_are_options_beside_those_of_a_model() -> None:
    wrapping = typer.Typer()

    @wrapping.command()
    @with_options
    def wrap(
        *, wrapping: Wrapping, fields: Annotated[dict[str, Any], OptionsOf(Order, ("hidden",))]
    ) -> None:
        """Print how it is wrapped."""
        typer.echo(f"{wrapping} {fields['size']}")

    done = CliRunner().invoke(wrapping, ["--ribbon", "--size", "5"])
    assert done.output == f"{Wrapping(ribbon=True)} 5\n"
