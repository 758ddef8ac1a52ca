"""Text units by name: the GRU, and the units that `studies/` registers where it is installed.

`TEXT_UNITS` of that package names them. A unit is imported when a model's configuration names it.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

_REGISTRY = "hasse.studies"


class TextUnit(Protocol):
    """A module that reads word vectors one after the other."""

    def __call__(self, vectors: Tensor, lengths: Tensor, matmul_dtype: torch.dtype = ...) -> Tensor:
        """Return each sequence's state after its last vector; see `GRU.forward`."""
        ...

    def max_pool(
        self,
        vectors: Tensor,
        lengths: Tensor,
        matmul_dtype: torch.dtype = ...,
        *,
        signed: bool = False,
    ) -> Tensor:
        """Return the largest of each sequence's states in each coordinate; see `GRU.max_pool`."""
        ...

    def renumber(self, order: Tensor, words: Tensor) -> None:
        """Give the states a new order, in place; `words` (V, D) are the model's word vectors."""
        ...


def text_units() -> tuple[str, ...]:
    """Return the names of all units."""
    return ("gru", *sorted(_registered()))


def make_text_unit(name: str, inputs: int, states: int) -> nn.Module:
    """Make a `TextUnit` with random weights.

    Raises:
        KeyError: there is no such unit.
    """
    if name == "gru":
        from hasse.models.encoders.units.gru import GRU

        return GRU(inputs, states)
    unit: Callable[[int, int], nn.Module] = pkgutil.resolve_name(_registered()[name])
    return unit(inputs, states)


def _registered() -> Mapping[str, str]:
    if find_spec(_REGISTRY) is None:
        return {}
    units: Mapping[str, str] = import_module(_REGISTRY).TEXT_UNITS
    return units
