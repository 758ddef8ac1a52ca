"""A planned distillation: the student, its teacher and the pictures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from hasse.lab.checkpoints import learned_model
from hasse.lab.checkpoints.learned_model import order_embedding_of
from hasse.lab.encoders.backbone import Backbone
from hasse.lab.encoders.registry import build_backbone
from hasse.lab.features.pixel_store import cache_pixels
from hasse.lab.pipelines.training import ProgressBars
from hasse.lab.pipelines.training_inputs import Tell
from hasse.lab.training.run import TrainingError, require_same
from hasse.models.checkpoints import named_models
from hasse.models.datasets import Dataset, load
from hasse.models.images.limits import DEFAULT_LIMITS, PictureLimits
from hasse.models.images.preprocessing import Preprocessing
from hasse.studies.distillation.distillation import Distillation, DistillationConfig, identity


@dataclass(frozen=True, slots=True)
class DistillationPlan:
    """A checked distillation.

    Attributes:
        collection: the pictures to learn from.
        projection: (N, F), a checkpoint's map of the teacher's features.
        start: the student's first weights.
    """

    config: DistillationConfig
    collection: Dataset
    teacher: Backbone
    projection: Tensor | None
    start: dict[str, Tensor] | None

    @classmethod
    def of(
        cls,
        config: DistillationConfig,
        dataset: Path,
        split: str,
        *,
        teacher: str,
        weights: Path | None = None,
        start: Path | None = None,
    ) -> DistillationPlan:
        """Check a request before its pictures are read, which takes long.

        Args:
            teacher: a checkpoint, or the name of a network whose `weights` are given.
            start: a file of weights or a checkpoint.

        Raises:
            TrainingError: there is no such teacher, start or enough pictures.
            BackboneError: a network cannot be built, or cannot see pictures of that size.
        """
        collection = load(dataset).split(split)
        # Layers of others cannot be traced, and they see pictures in other colours.
        for name in (config.student, *([teacher] if weights is not None else [])):
            if not name.startswith("torchvision/"):
                raise TrainingError(
                    f"{name} cannot be distilled: name a network of torchvision, such as "
                    f"torchvision/mobilenet_v2"
                )
        build_backbone(config.student).keep_grid().require_side(config.side)
        network, projection = _teacher(teacher, weights)
        network.require_side(config.teacher_side)
        first = None if start is None else _start(start, config.student)
        config.require_enough(len(collection))
        return cls(config, collection, network, projection, first)

    def prepare(
        self,
        out: Path,
        device: str,
        bars: ProgressBars,
        tell: Tell,
        workers: int | None = None,
        limits: PictureLimits = DEFAULT_LIMITS,
    ) -> Distillation:
        """Read the pictures; `tell` gets a line for each that cannot be read.

        Raises:
            TrainingError: the folder holds another training.
        """
        images = self.collection.images
        # Reading the pictures would replace those of another distillation.
        same = identity(self.config, images, self.teacher, self.projection, self.start)
        require_same(out, same)
        side = self.config.teacher_side
        with bars("reading pictures") as progress:
            pictures = cache_pixels(
                self.collection,
                Preprocessing(resize=side, crop=side, framing="whole"),
                out / "pictures",
                workers=workers,
                limits=limits,
                progress=progress,
                skipped=tell,
            )
        return Distillation(
            self.config,
            pictures.pixels,
            self.teacher,
            out,
            images=images,
            projection=self.projection,
            start=self.start,
            device=device,
        )


def _teacher(named: str, weights: Path | None) -> tuple[Backbone, Tensor | None]:
    """Return a network that keeps its grid, and a checkpoint's map of its features (N, F)."""
    if weights is not None:
        return build_backbone(named, weights).keep_grid(), None
    folder = named_models.find(Path(named))
    if not folder.is_dir():
        raise TrainingError(
            f"there is no checkpoint {named}: name its folder, or the --weights of a torchvision "
            f"network"
        )
    images = order_embedding_of(learned_model.load(folder, to_learn=True)).images
    return images.backbone.keep_grid(), images.projection.weight.detach()


def _start(path: Path, student: str) -> dict[str, Tensor]:
    if path.is_file():
        network = build_backbone(student, path)
    else:
        network = order_embedding_of(
            learned_model.load(named_models.find(path), to_learn=True)
        ).images.backbone
        if network.name != student:
            raise TrainingError(
                f"{path} has a {network.name}, and the student is a {student}: name another "
                f"--start, or --set student={network.name}"
            )
    return network.network.state_dict()
