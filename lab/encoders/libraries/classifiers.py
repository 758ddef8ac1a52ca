"""Classification networks, of torchvision or similar, as encoders of pictures."""

from __future__ import annotations

import re
from collections import OrderedDict

from torch import Tensor, nn
from torch.fx.experimental.optimization import fuse

from hasse.lab.encoders.backbone import Backbone
from hasse.models.errors import BackboneError
from hasse.models.images.preprocessing import Preprocessing

# Names of the classifier's attribute, in all of torchvision's families.
_CLASSIFIERS = ("fc", "classifier", "head", "heads")
# Auxiliary classifiers of GoogLeNet and Inception, for training only.
_AUXILIARY = ("aux1.", "aux2.", "AuxLogits.")
# Layer names of an earlier version, in torchvision's published DenseNets.
_OLD_DENSENET = re.compile(r"(denselayer\d+\.(?:norm|relu|conv))\.([12]\.)")

# As of the paper's networks: a crop of 224 pixels from a shortest side of 256.
_PREPROCESSING = Preprocessing()


class ClassifierBackbone(Backbone):
    """A classification network without its classifier."""

    def __init__(
        self, name: str, network: nn.Module, preprocessing: Preprocessing = _PREPROCESSING
    ) -> None:
        """Remove the classifier of `network`; see `torchvision.build`."""
        super().__init__(name, network, _remove_classifier(name, network), preprocessing)

    def has_grid(self) -> bool:
        """Return whether the network ends in the average of a grid, which `keep_grid` needs."""
        if self.grid or self._averages_in_forward():
            return True
        pool = getattr(self.network, self._pool(), None)
        head = getattr(self.network, next(n for n in _CLASSIFIERS if hasattr(self.network, n)))
        averages = isinstance(pool, nn.AdaptiveAvgPool2d) and pool.output_size in {1, (1, 1)}
        return averages and not len(head)

    def _remove_average(self) -> None:
        if self._averages_in_forward():
            self.network = nn.Sequential(
                OrderedDict(features=self.network.get_submodule("features"))
            )
        else:
            setattr(self.network, self._pool(), nn.Identity())

    def _fuse(self) -> None:
        if any(isinstance(layer, nn.BatchNorm2d) for layer in self.modules()):
            self.network = fuse(self.network, inplace=True)  # of a copy

    @property
    def _classifier_keys(self) -> tuple[str, ...]:
        return (*(f"{head}." for head in _CLASSIFIERS), *_AUXILIARY)

    def _rename_weights(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        return {_OLD_DENSENET.sub(r"\1\2", key): value for key, value in weights.items()}

    def _averages_in_forward(self) -> bool:
        """Return whether it averages in `forward`, without a layer that could be removed."""
        # By name: importing torchvision takes seconds, and the built-in network does not need it.
        return type(self.network).__name__ == "MobileNetV2" and not self.network.classifier

    def _pool(self) -> str:
        """Return the name of the layer that averages: MNASNet's differs."""
        return "pool" if hasattr(self.network, "pool") else "avgpool"


def _remove_classifier(name: str, network: nn.Module) -> int:
    """Remove the last linear (or 1 x 1 convolution) layer; return its number of inputs."""
    for attribute in _CLASSIFIERS:
        head = getattr(network, attribute, None)
        layers = list(head.children()) if isinstance(head, nn.Sequential) else [head]
        for at in reversed(range(len(layers))):
            last = layers[at]
            if isinstance(last, nn.Conv2d):  # SqueezeNet classifies, then pools
                setattr(network, attribute, nn.AdaptiveAvgPool2d(1))
                return last.in_channels
            if isinstance(last, nn.Linear):
                rest = layers[:at]
                while rest and isinstance(rest[-1], nn.Dropout):
                    rest.pop()
                setattr(network, attribute, nn.Sequential(*rest))
                return last.in_features
    raise BackboneError(f"the network '{name}' has no classifier that Hasse can remove")
