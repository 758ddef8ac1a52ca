from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from hasse.lab.checkpoints import learned_model
from hasse.lab.checkpoints.learned_model import order_embedding_of
from hasse.models import files
from hasse.models.calibration import Calibration, Calibrations
from hasse.models.checkpoints import checkpoint, named_models, trained_model
from hasse.models.checkpoints.model_folder import (
    CALIBRATION,
    CONFIG,
    METRICS,
    SUMS,
    VOCABULARY,
    WEIGHTS,
    CheckpointError,
)
from hasse.models.checkpoints.trained_model import PICTURES
from hasse.models.checkpoints.weights import Array, WeightDtype, weights
from hasse.models.text_model import TextModel
from tests.models.test_files import files_of_at_most, room_for
from tests.tiny import seal, tiny_checkpoint, tiny_model


def test_a_loaded_model_encodes_as_the_saved_one(tmp_path: Path) -> None:
    model = tiny_model()
    calibration = Calibrations(image=Calibration((0.1, 0.2), (0.9, 0.3), 0.15, 10, 4))
    learned_model.save(tmp_path, model, "tiny", {"seen": 3}, calibration)
    loaded = checkpoint.load(tmp_path)
    picture = Image.linear_gradient("L").convert("RGB")
    np.testing.assert_array_equal(
        loaded.model.encode_captions(["a red dog"]), model.encode_captions(["a red dog"])
    )
    np.testing.assert_allclose(
        loaded.model.encode_images([picture]), model.encode_images([picture]), atol=1e-6
    )
    assert (loaded.name, loaded.metrics) == ("tiny", {"seen": 3})
    assert loaded.calibration == calibration


def test_load_without_pictures_encodes_captions(tmp_path: Path) -> None:
    whole = checkpoint.load(tiny_checkpoint(tmp_path))
    part = checkpoint.load(tmp_path, with_pictures=False)
    assert part.fingerprint == whole.fingerprint
    assert not hasattr(part.model, "images")
    captions = ["a red dog runs", "a cat"]
    np.testing.assert_array_equal(
        part.model.encode_captions(captions), whole.model.encode_captions(captions)
    )


def test_load_to_learn_returns_the_saved_weights(tmp_path: Path) -> None:
    model = tiny_model()
    learned_model.save(tmp_path, model, "tiny", {})
    loaded = order_embedding_of(learned_model.load(tmp_path, to_learn=True))
    saved = model.state_dict()
    assert loaded.state_dict().keys() == saved.keys()
    assert all(torch.equal(value, saved[key]) for key, value in loaded.state_dict().items())


def test_load_uncalibrated_model_has_no_calibration(tmp_path: Path) -> None:
    learned_model.save(tmp_path, tiny_model(), "tiny", {})
    assert checkpoint.load(tmp_path).calibration == Calibrations(None, None)


@pytest.mark.parametrize(
    "content", ["{", '{"image": 3, "caption": null}', '{"image": {"violations": [1]}}']
)
def test_a_damaged_calibration_is_named(tmp_path: Path, content: str) -> None:
    (tiny_checkpoint(tmp_path) / CALIBRATION).write_text(content)
    seal(tmp_path)
    with pytest.raises(CheckpointError, match=CALIBRATION):
        checkpoint.load(tmp_path)


@pytest.mark.parametrize(("dtype", "size", "off"), [("float16", 0.6, 2e-3), ("int8", 0.4, 5e-2)])
def test_fewer_bits_make_the_file_smaller_and_keep_points_close(
    dtype: WeightDtype, size: float, off: float, tmp_path: Path
) -> None:
    model = tiny_model()
    learned_model.save(tmp_path / "whole", model, "tiny", {})
    learned_model.save(tmp_path / "less", model, "tiny", {}, dtype=dtype)
    sizes = [(tmp_path / kind / WEIGHTS).stat().st_size for kind in ("less", "whole")]
    assert sizes[0] < size * sizes[1]
    less = checkpoint.load(tmp_path / "less").model
    np.testing.assert_allclose(
        less.encode_captions(["a dog"]), model.encode_captions(["a dog"]), atol=off
    )


def test_the_fingerprint_follows_what_decides_the_encoding(tmp_path: Path) -> None:
    def fingerprint(name: str) -> str:
        return checkpoint.load(tmp_path / name).fingerprint

    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        tiny_checkpoint(tmp_path / name, seed=seed)
    assert fingerprint("b") == fingerprint("a") != fingerprint("c")
    learned_model.save(tmp_path / "b", tiny_model(), "tiny", {"note": 1})  # and not calibrated
    assert fingerprint("b") == fingerprint("a")
    for name, edited in ((CONFIG, {"name": "other"}), (VOCABULARY, None)):
        path = tmp_path / "b" / name
        before = path.read_bytes()
        described = json.loads(before)
        path.write_text(json.dumps(described | edited if edited else described, indent=3))
        seal(tmp_path / "b")
        assert fingerprint("b") != fingerprint("a")
        path.write_bytes(before)


def test_a_model_remembers_the_network_whose_features_it_learned_from(tmp_path: Path) -> None:
    model = tiny_model()
    own = model.images.backbone.fingerprint()
    model.images.backbone.origin = "the fingerprint"
    learned_model.save(tmp_path, model, "tiny", {})
    assert (
        order_embedding_of(learned_model.load(tmp_path)).images.backbone.origin == "the fingerprint"
    )
    config = json.loads((tmp_path / CONFIG).read_text())
    del config["network"]  # it is its own, then
    (tmp_path / CONFIG).write_text(json.dumps(config))
    seal(tmp_path)
    assert order_embedding_of(learned_model.load(tmp_path)).images.backbone.origin == own


@pytest.mark.parametrize("written", range(7))
def test_load_before_the_first_model_is_whole_is_refused(tmp_path: Path, written: int) -> None:
    with room_for(written), pytest.raises(OSError, match="No space"):
        learned_model.save(tmp_path, tiny_model(), "tiny", {})
    with pytest.raises(CheckpointError, match=f"it has no {CONFIG}"):
        checkpoint.load(tmp_path)


def test_a_model_without_room_leaves_the_one_before_it_as_it_was(tmp_path: Path) -> None:
    calibration = Calibrations(image=Calibration((0.1, 0.2), (0.9, 0.3), 0.15, 10, 4))
    learned_model.save(tmp_path, tiny_model(), "tiny", {"epoch": 1}, calibration)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    room = len(before[WEIGHTS]) - 1  # enough for each of the other files
    with files_of_at_most(room), pytest.raises(OSError, match="large"):
        learned_model.save(tmp_path, tiny_model(seed=1), "tiny", {"epoch": 2})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_model_that_is_written_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_checkpoint(tmp_path)
    read = weights

    @contextmanager
    def late(folder: Path, without: str) -> Iterator[dict[str, Array]]:
        with read(folder, without) as found:
            tiny_checkpoint(folder, seed=1)
            yield found

    def in_between(folder: Path, without: str) -> NoReturn:
        tiny_checkpoint(folder, seed=2)
        raise CheckpointError("these weights are of another model")

    for meanwhile in (late, in_between):
        with monkeypatch.context() as patch:
            patch.setattr(trained_model, "weights", meanwhile)
            with pytest.raises(CheckpointError, match=r"writes the model just now \(do the same"):
                checkpoint.load(tmp_path)
    assert checkpoint.load(tmp_path).name == "tiny"


def test_a_model_whose_writing_was_cut_off_is_refused_until_it_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(Exception):
        pass

    written: list[Path] = []

    def cut_off(partial: Path, path: Path) -> None:
        if len(written) == survives:
            raise Killed
        written.append(path)
        publish_file(partial, path)

    publish_file = files.publish_file
    for survives in range(7):
        tiny_checkpoint(tmp_path)
        written.clear()
        calibration = Calibrations(image=Calibration((0.1, 0.2), (0.9, 0.3), 0.15, 10, 4))
        with monkeypatch.context() as patch:
            patch.setattr(files, "publish_file", cut_off)
            with pytest.raises(Killed):
                learned_model.save(tmp_path, tiny_model(seed=1), "next", {"epoch": 2}, calibration)
        if survives == 0:
            assert checkpoint.load(tmp_path).name == "tiny"
            continue
        with pytest.raises(CheckpointError, match=r"was stopped while it did \(let it go on"):
            checkpoint.load(tmp_path)
    assert [path.name for path in written] == [
        WEIGHTS,
        PICTURES,
        VOCABULARY,
        CALIBRATION,
        METRICS,
        SUMS,
    ]


FILES = (WEIGHTS, PICTURES, CONFIG, VOCABULARY, CALIBRATION, METRICS)


@pytest.mark.parametrize("name", [*FILES, SUMS])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    tiny_checkpoint(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(CheckpointError, match=f"has no {name}|{name} is not what {SUMS} says"):
        checkpoint.load(tmp_path)


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_named(tmp_path: Path, name: str) -> None:
    whole = (tiny_checkpoint(tmp_path) / name).read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    for damaged in (whole[: len(whole) // 2], bytes(flipped), b"\xff"):
        (tmp_path / name).write_bytes(damaged)
        with pytest.raises(CheckpointError, match=name):
            checkpoint.load(tmp_path)


def test_load_with_damaged_checksums_is_refused(tmp_path: Path) -> None:
    sums = tiny_checkpoint(tmp_path) / SUMS
    whole = sums.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole.replace(b"a", b"b"), b"\xff"):
        sums.write_bytes(damaged)
        with pytest.raises(CheckpointError, match=f"is not what {SUMS} says"):
            checkpoint.load(tmp_path)


def test_checksums_are_those_that_sha256sum_checks_and_makes(tmp_path: Path) -> None:
    tiny_checkpoint(tmp_path)
    checked = ["sha256sum", "--check", "--strict", SUMS]
    subprocess.run(checked, cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / SUMS).unlink()
    with pytest.raises(CheckpointError, match="has no SHA256SUMS") as said:
        checkpoint.load(tmp_path)
    (tmp_path / f"{CONFIG} of before.json").touch()  # is another file, and none of its own
    (command,) = re.findall(r"'(sha256sum [^']*)'", str(said.value))
    for made in (command, command.replace("sha256sum", "sha256sum --binary")):
        subprocess.run(["sh", "-c", made], cwd=tmp_path, check=True)
        assert checkpoint.load(tmp_path).name == "tiny"


def test_weights_of_another_shape_are_refused(tmp_path: Path) -> None:
    tiny_checkpoint(tmp_path)
    config = json.loads((tmp_path / CONFIG).read_text())
    config["model"]["dimension"] = 17
    (tmp_path / CONFIG).write_text(json.dumps(config))
    seal(tmp_path)
    with pytest.raises(CheckpointError, match="does not hold the weights"):
        checkpoint.load(tmp_path)


@pytest.mark.parametrize("spoiled", [torch.nan, torch.inf])
def test_weights_that_are_not_finite_are_refused_by_name(tmp_path: Path, spoiled: float) -> None:
    tiny_checkpoint(tmp_path)
    weights = load_file(tmp_path / WEIGHTS)
    weights["images.projection.weight"][0, 0] = spoiled
    save_file(weights, tmp_path / WEIGHTS)
    seal(tmp_path)
    with pytest.raises(CheckpointError, match=r"not finite numbers \(images\.projection\.weight\)"):
        checkpoint.load(tmp_path)


def test_bytes_without_their_scales_are_refused_by_name(tmp_path: Path) -> None:
    learned_model.save(tmp_path, tiny_model(), "tiny", {}, dtype="int8")
    weights = load_file(tmp_path / WEIGHTS)
    del weights["images.projection.weight.scale"]
    save_file(weights, tmp_path / WEIGHTS)
    seal(tmp_path)
    said = r"\(images\.projection\.weight is stored in bytes, and .*\.weight\.scale is missing\)"
    with pytest.raises(CheckpointError, match=said):
        checkpoint.load(tmp_path)


def test_another_format_is_refused(tmp_path: Path) -> None:
    tiny_checkpoint(tmp_path)
    config = json.loads((tmp_path / CONFIG).read_text())
    for version in (0, 99):
        config["format"] = version
        (tmp_path / CONFIG).write_text(json.dumps(config))
        with pytest.raises(CheckpointError, match=f"format {version}"):
            checkpoint.load(tmp_path)


def test_load_reads_a_model_that_names_the_usual_options_of_studies(tmp_path: Path) -> None:
    tiny_checkpoint(tmp_path)
    expected = checkpoint.load(tmp_path).model.encode_captions(["a dog"])
    config = json.loads((tmp_path / CONFIG).read_bytes())
    config["model"] |= {"text_encoder": "gru", "states": 0}
    config["model"] |= {"word_vectors": "learned", "image_map": "linear"}
    (tmp_path / CONFIG).write_text(json.dumps(config))
    seal(tmp_path)
    loaded = checkpoint.load(tmp_path, with_pictures=False).model
    assert isinstance(loaded, TextModel)
    np.testing.assert_allclose(loaded.encode_captions(["a dog"]), expected, atol=1e-6)


def test_load_names_a_text_unit_that_is_not_installed(tmp_path: Path) -> None:
    tiny_checkpoint(tmp_path)
    config = json.loads((tmp_path / CONFIG).read_bytes())
    config["model"]["text_encoder"] = "transducer"
    (tmp_path / CONFIG).write_text(json.dumps(config))
    seal(tmp_path)
    with pytest.raises(CheckpointError, match="a unit 'transducer', which is not installed"):
        checkpoint.load(tmp_path)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("scenes", "captions.extent.weight", "captions.length_head.weight"),
        ("photographs", "crowd.sharpness", "hubness.inverse_temperature"),
    ],
)
def test_tensors_are_written_by_their_names_and_read_by_those_of_0_2_0(
    name: str, old: str, new: str, tmp_path: Path
) -> None:
    built_in = learned_model.load(named_models.pretrained(name), to_learn=True)
    learned = named_models.pretrained(name) if built_in.base is None else built_in.base.folder
    assert old in load_file(learned / WEIGHTS)
    learned_model.save(tmp_path, order_embedding_of(built_in), name, {}, dtype="float32")
    written = load_file(tmp_path / WEIGHTS)
    assert new in written
    assert not any("crowd" in key or "extent" in key for key in written)
    again = order_embedding_of(learned_model.load(tmp_path, to_learn=True)).state_dict()
    for key, value in order_embedding_of(built_in).state_dict().items():
        assert again[key].equal(value), key
