"""Make libraries as 0.3.0 made them, with the code of 0.3.0.

    git worktree add /tmp/hasse-0.3.0 0de85a4
    cd /tmp/hasse-0.3.0
    PYTHONPATH=src python -P REPOSITORY/tests/compatibility/make_0_3_0.py OUT [--pictures 12]

with the dependencies of this version, and in HASSE_TEST_POSTGRESQL a PostgreSQL server in which a
database can be made. For each kind of `KINDS` it writes OUT/KIND, with the answers of 0.3.0, and
OUT/KIND.tar.xz, which is what this folder holds.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
from importlib import import_module
from pathlib import Path
from typing import Any

import sqlalchemy as sql

KINDS = ("sqlite", "postgresql", "moved", "two-towers")
CAPTIONS = ("a dog in a park", "a child", "a red ball", "an animal on grass")
# A tiny CLIP. The rows of its words are signs, and zero of rare ones, so that it packs well.
TOWERS: dict[str, Any] = {
    "embed_dim": 16,
    "vision_cfg": {
        "image_size": 32,
        "layers": 1,
        "width": 32,
        "patch_size": 8,
        "head_width": 32,
    },
    "text_cfg": {"context_length": 16, "vocab_size": 49408, "width": 32, "heads": 1, "layers": 1},
}
_UNLEARNED = 7_000  # numbers of words from here on are rare ones, up to those that end a text


def old(module: str) -> Any:
    """Import a module of the package of 0.3.0."""
    return import_module(f"hasse.{module}".removesuffix("."))


def hasse(*arguments: object) -> None:
    """Run a command of 0.3.0, which takes pictures for the model of the demo too."""
    program = (
        "import hasse.service.cli.collection.additions as additions\n"
        "additions.require_no_demo = lambda model: None\n"
        "from hasse.service.cli.app import main\n"
        "main()"
    )
    subprocess.run([sys.executable, "-P", "-c", program, *map(str, arguments)], check=True)


def draw(folder: Path, count: int) -> None:
    """Draw pictures, and write a caption or two beside most of them."""
    drawn = old("service.pipelines.scenes").generate(
        folder.with_name("drawn"), train=count, val=0, test=0, seed=42, size=64, workers=1
    )
    folder.mkdir()
    for at, image in enumerate(drawn.images):
        shutil.copy(image.path, folder / f"{at:04d}.jpg")
        if at % 3:
            captions = [caption.text for caption in image.captions[: at % 3]]
            (folder / f"{at:04d}.txt").write_text("\n".join(captions))
    shutil.rmtree(folder.with_name("drawn"))


def towers(folder: Path) -> Path:
    """Make a model of two pretrained encoders, as 'hasse lab model make' does."""
    import open_clip
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(42)
    hub = folder.with_name("hub")
    hub.mkdir()
    described = {"model_cfg": TOWERS, "preprocess_cfg": {"size": 32, "resize_mode": "shortest"}}
    (hub / "open_clip_config.json").write_text(json.dumps(described))
    model = open_clip.create_model(f"local-dir:{hub}", load_weights=False).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim > 1:
                weight.normal_(std=0.2)
            elif name.endswith("bias"):
                weight.normal_(std=0.1)
        words = model.token_embedding.weight
        words.copy_(0.2 * words.sign())
        words[_UNLEARNED:-2] = 0
    save_file(model.state_dict(), hub / "open_clip_model.safetensors")
    os.environ["HASSE_HOME"] = str(folder.with_name("home"))
    made = old("models.checkpoints.named_models").make("tiny", "open_clip/tiny", hub)
    shutil.move(made, folder)
    shutil.rmtree(hub)
    return folder


def fill(library: Path, pictures: Path, model: Path | str) -> None:
    """Add, compact with bounds, add again, rename, copy, upload and remove."""
    later = sorted(pictures.glob("*.jpg"))[-2:]
    aside = [path.rename(pictures.parent / path.name) for path in later]
    hasse("lab", "index", "create", "--library", library, "--model", model)
    hasse("add", pictures, "--library", library)
    thresholds = old("index.segments.cost_model").Thresholds(1, 60)
    with old("index.store").Index.open(library, thresholds=thresholds) as index:
        index.remove([3])
        index.compact(old("index.segments.compaction").everything)
    for path in aside:
        path.rename(pictures / path.name)
    (pictures / "below").mkdir()
    (pictures / "0004.jpg").rename(pictures / "below" / "renamed.jpg")
    shutil.copy(pictures / "0005.jpg", pictures / "below" / "copy.jpg")
    hasse("sync", "--library", library)
    if model == "scenes":
        hasse("describe", "--all", "--library", library)
    sent = (pictures / "0000.jpg").read_bytes() + b"sent"
    with old("").open_index(library, model) as index:
        index.add_image(sent, ["a picture that was sent"], split="val")
        index.remove_image(index.add_image(sent + b"too").image_id)


def ask(library: Path, pictures: Path, model: Path | str) -> list[dict[str, Any]]:
    """Return what 0.3.0 answers; a picture is named by its path below `pictures`."""
    asked: list[tuple[str, Any, dict[str, Any]]] = [
        ("search_images", caption, {"k": 8, "mode": mode, "evidence": evidence})
        for caption in CAPTIONS
        for mode in ("certified", "exact")
        for evidence in ("any", "shows")
    ]
    asked += [("search_images", CAPTIONS[0], {"k": 8, "split": "val"})]
    picture = "below/renamed.jpg"
    asked += [("search_captions", picture, {"k": 8}), ("search_similar", picture, {"k": 4})]
    answers = []
    with old("").open_index(library, model) as index:
        for question, about, options in asked:
            given = pictures / about if about == picture else about
            found = getattr(index, question)(given, **options)
            hits = [hit.model_dump(mode="json", exclude={"path", "paths"}) for hit in found.hits]
            answers.append({"question": question, "about": about, "options": options, "hits": hits})
    return answers


def make(kind: str, out: Path, pictures: int, server: str) -> None:
    """Make one library with its pictures and its answers, and pack it."""
    folder = out / kind
    folder.mkdir(parents=True)
    library, files = folder / "library", folder / "pictures"
    if kind == "moved":  # elsewhere, so that the catalog has absolute paths
        files = out / "elsewhere" / "pictures"
        files.parent.mkdir()
    draw(files, pictures)
    model = towers(folder / "tiny") if kind == "two-towers" else "scenes"
    url = None
    if kind == "postgresql":
        url = sql.make_url(server).set(database="hasse_0_3_0")
        library.mkdir()
        (library / "catalog.url").write_text(url.render_as_string(hide_password=False))
        in_database(server, "DROP DATABASE IF EXISTS hasse_0_3_0")
        in_database(server, "CREATE DATABASE hasse_0_3_0")
    fill(library, files, model)
    hasse("status", "--verify", "--library", library)
    answers = ask(library, files, model)  # an open library may merge its small segments
    with old("index.store").Index.open(library) as index:
        images = sorted(image.id for image in index.catalog.all_rows()[0])
        facts = {"generation": index.generation, "images": images, "answers": answers}
    (folder / "answers.json").write_text(json.dumps(facts, indent=1))
    if url is not None:
        dumped = subprocess.run(
            [
                "pg_dump",
                "--no-owner",
                "--inserts",
                url.set(drivername="postgresql").render_as_string(),
            ],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        lines = [line for line in dumped.splitlines() if not line.startswith("\\")]
        (folder / "catalog.sql").write_text("\n".join(lines))
        (library / "catalog.url").unlink()
        in_database(server, "DROP DATABASE hasse_0_3_0")
    if kind == "moved":
        files.rename(folder / "pictures")
        shutil.rmtree(out / "elsewhere")
    with tarfile.open(out / f"{kind}.tar.xz", "w:xz", preset=9) as archive:
        for path in sorted(folder.rglob("*")):
            archive.add(path, path.relative_to(folder), recursive=False, filter=_nobody)


def in_database(server: str, statement: str) -> None:
    """Run one statement in a server."""
    engine = sql.create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(statement)
    engine.dispose()


def _nobody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def main() -> None:
    """Make what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--pictures", type=int, default=12)
    parser.add_argument("--kind", action="append", choices=KINDS)
    chosen = parser.parse_args()
    for kind in chosen.kind or KINDS:
        make(kind, chosen.out.resolve(), chosen.pictures, os.environ["HASSE_TEST_POSTGRESQL"])


if __name__ == "__main__":
    main()
