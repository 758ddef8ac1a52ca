"""Layouts of repositories that publish two encoders as ONNX graphs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal, TypeAlias

from hasse.models.errors import HasseError

Maker: TypeAlias = Literal["immich", "Transformers.js"]

_OTHER_RUNTIMES = (".armnn", ".rknn", ".md")


class PublishedModelError(HasseError):
    """A published model cannot be used; the message has the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the files of a published model are, relative to its folder.

    Attributes:
        maker: whose layout it is.
        pictures: the graph that encodes pictures.
        texts: the graph that encodes texts.
        preprocessing: how pictures are prepared.
        tokenizer: of texts.
        config: the architecture.
        optional: further settings of the tokenizer.
    """

    maker: Maker
    pictures: str
    texts: str
    preprocessing: str
    tokenizer: str
    config: str
    optional: tuple[str, ...]

    @property
    def required(self) -> tuple[str, ...]:
        """The files that a model cannot do without."""
        return self.pictures, self.texts, self.preprocessing, self.tokenizer, self.config

    def wants(self, file: str) -> bool:
        """Return whether a file of a repository belongs to the model: its graphs' weights too.

        Weights lie beside their graph. immich's graphs have folders of their own; others begin
        with the graph's name.
        """
        if file in self.required or file in self.optional:
            return True
        path = PurePosixPath(file)
        if ".." in path.parts:
            return False
        graphs = (PurePosixPath(graph) for graph in (self.pictures, self.texts))
        return not file.endswith(_OTHER_RUNTIMES) and any(
            path.parent == graph.parent
            and (self.maker == "immich" or path.name.startswith(graph.name))
            for graph in graphs
        )


IMMICH = Layout(
    "immich",
    "visual/model.onnx",
    "textual/model.onnx",
    "visual/preprocess_cfg.json",
    "textual/tokenizer.json",
    "config.json",
    ("textual/tokenizer_config.json", "textual/special_tokens_map.json"),
)
TRANSFORMERS_JS = Layout(
    "Transformers.js",
    "onnx/vision_model.onnx",
    "onnx/text_model.onnx",
    "preprocessor_config.json",
    "tokenizer.json",
    "config.json",
    ("tokenizer_config.json", "special_tokens_map.json"),
)
LAYOUTS = (IMMICH, TRANSFORMERS_JS)


def layout_of(files: Collection[str], source: str) -> Layout | None:
    """Return the layout of a model's files, or None if there is no graph of either layout.

    Raises:
        PublishedModelError: a required file is missing; `source` has them, for the message.
    """
    for layout in LAYOUTS:
        if layout.pictures in files or layout.texts in files:
            missing = [name for name in layout.required if name not in files]
            if missing:
                raise PublishedModelError(
                    f"{source} has {layout.maker}'s layout, but no {' and no '.join(missing)}: "
                    f"download the whole repository, or name another"
                )
            return layout
    return None


def layout_of_folder(folder: Path) -> Layout | None:
    """Return the layout of a folder, or None; see `layout_of`."""
    names = {name for each in LAYOUTS for name in each.required if (folder / name).is_file()}
    return layout_of(names, str(folder))
