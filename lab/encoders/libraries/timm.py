"""timm's networks as encoders of pictures."""

from __future__ import annotations

import difflib
import math
from itertools import pairwise
from typing import Any, cast, get_args

import timm
from timm.data import resolve_data_config
from timm.layers import SelectAdaptivePool2d
from timm.layers.norm_act import BatchNormAct2d
from timm.models import EfficientNet
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

from hasse.lab.encoders.backbone import Backbone
from hasse.lab.encoders.libraries.downloads import EncoderFiles
from hasse.models.errors import BackboneError
from hasse.models.images.preprocessing import Interpolation, Preprocessing

WEIGHTS = "model.safetensors"
FILES = EncoderFiles((WEIGHTS,))


class TimmBackbone(Backbone):
    """A network of timm's without its classifier."""

    def has_grid(self) -> bool:
        """Return whether the network ends in the average of a grid, which `keep_grid` needs."""
        # A MobileNetV3 has layers after its average.
        pool = getattr(self.network, "global_pool", None)
        is_last = getattr(self.network, "head_hidden_size", None) == self.network.num_features
        return self.grid or (
            isinstance(pool, SelectAdaptivePool2d) and pool.pool_type == "avg" and is_last
        )

    def _remove_average(self) -> None:
        self.network.global_pool = nn.Identity()

    def _fuse(self) -> None:
        # torch.fx cannot trace convolutions that pad as TensorFlow's do. In these networks, unlike
        # others of timm's, layers are applied in the order of their names.
        if not isinstance(self.network, EfficientNet):
            return
        for block in list(self.network.modules()):
            layers = list(block.named_children())
            for (_, conv), (name, norm) in pairwise(layers):
                if isinstance(conv, nn.Conv2d) and isinstance(norm, BatchNormAct2d):
                    conv.weight, conv.bias = fuse_conv_bn_weights(
                        conv.weight,
                        conv.bias,
                        norm.running_mean,
                        norm.running_var,
                        norm.eps,
                        norm.weight,
                        norm.bias,
                    )
                    setattr(block, name, nn.Sequential(norm.drop, norm.act))

    @property
    def _classifier_keys(self) -> tuple[str, ...]:
        settings = cast("dict[str, Any]", self.network.pretrained_cfg)
        names = settings.get("classifier") or ()
        return tuple(f"{name}." for name in ([names] if isinstance(names, str) else names))


def build(name: str, full_name: str) -> TimmBackbone:
    """Build a network by its timm name, with random weights.

    Raises:
        BackboneError: there is no such network.
    """
    if not timm.is_model(name):
        near = difflib.get_close_matches(name.split(".", maxsplit=1)[0], timm.list_models(), n=3)
        raise BackboneError(
            f"timm has no network '{name}'; "
            + (f"there is {', '.join(near)}" if near else "timm.list_models() lists them")
        )
    network = timm.create_model(name, pretrained=False, num_classes=0)
    dimension = getattr(network, "head_hidden_size", None) or network.num_features
    return TimmBackbone(full_name, network, int(dimension), _preprocessing(network))


def hub_repository(name: str) -> str:
    """Return the repository of a network's weights on the Hugging Face hub.

    Raises:
        BackboneError: there is none.
    """
    known = timm.is_model(name)
    config = timm.get_pretrained_cfg(name, allow_unregistered=False) if known else None
    if config is None or not config.hf_hub_id:
        raise BackboneError(f"timm publishes no weights of '{name}' on the Hugging Face hub")
    return str(config.hf_hub_id)


def _preprocessing(network: nn.Module) -> Preprocessing:
    settings: dict[str, Any] = resolve_data_config({}, model=network)
    side = int(settings["input_size"][-1])
    interpolation = settings["interpolation"]
    return Preprocessing(
        resize=max(side, math.floor(side / settings["crop_pct"])),
        crop=side,
        mean=settings["mean"],
        std=settings["std"],
        framing="whole" if settings["crop_mode"] == "squash" else "centre",
        interpolation=interpolation if interpolation in get_args(Interpolation) else "bicubic",
    )
