"""Every limit and choice of the service, each with a sentence about its purpose below it.

A setting comes from the command line, or from the environment as `HASSE_` and its name in
capitals (`HASSE_PORT=8080`). The command line wins.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from hasse.models.encoders.names import Runtime
from hasse.models.home import home
from hasse.models.images.limits import PictureLimits
from hasse.service.addresses import PREFIX, networks_of
from hasse.service.keys import KeysFile, keys_of

_HOST_NAME = re.compile(r"\*|(\*\.)?[a-z0-9._-]+")
_ORIGIN = re.compile(r"https?://[^\s/?#,]+")
Seconds = Annotated[float, Field(le=86_400)]  # a day at most: a thread cannot wait forever
# Settings that a running service can reload, see `service.runtime.reloading`.
RELOADED = (
    *("read_keys", "write_keys", "keys_file", "open_writes"),
    *("searches_per_minute", "writes_per_minute"),
    *("in_flight", "queued", "deadline_seconds", "writes_in_flight", "write_seconds"),
    *("json_bytes", "picture_bytes", "export_bytes", "body_seconds", "buffered_bytes"),
    *("caption_words", "caption_characters", "image_captions", "k_maximum", "log_level"),
)


class Settings(BaseSettings):
    """The settings of `hasse serve`. Sizes are in bytes, times in seconds."""

    model_config = SettingsConfigDict(env_prefix="HASSE_", frozen=True)

    library: Path | None = None
    """Folder of the library, which is searched; when empty, the user's library, in the platform's
    usual folder for data."""
    model: Path | None = None
    """The checkpoint, a folder or the name of a built-in model; when empty, the model that the
    index was built with."""
    device: str = "auto"
    """Where the encoders run: cpu, cuda, cuda:1, or auto for CUDA where present."""
    encoder_runtime: Runtime = "auto"
    """Runtime of the picture encoder on a processor: openvino, torch in float32 or bfloat16, or
    auto for OpenVINO on x86-64 and elsewhere bfloat16 where the processor has it."""
    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 lets other machines in."""
    port: int = Field(default=8000, ge=0, le=65535)
    """Port to listen on; 0 takes any free one."""
    root_path: str = ""
    """Path prefix under which a proxy offers the service, as in /hasse; the proxy may remove it or
    not; when empty, none."""
    trusted_proxies: str = ""
    """Addresses or networks of proxies, comma-separated, whose X-Forwarded-Prefix replaces
    `root_path`; when empty, none."""
    cors_origins: str = ""
    """Origins whose pages may use the API, comma-separated, as in https://example.org; * for all;
    when empty, none."""
    allowed_hosts: str = ""
    """Names under which clients reach the service, comma-separated, in addition to localhost and
    its addresses; *.example.org for all names below one, * for all; when empty, no further names. A
    request for another name is 421."""
    processes: int = Field(default=1, ge=1, le=256)
    """Processes that share the port, each with its share of the cores and its own limits; more than
    one on Linux only."""
    follow: bool = True
    """Whether `hasse serve` follows the folders of the library."""
    ocr: bool = True
    """Whether text in new pictures is read in the background, with the extra `ocr`."""

    json_bytes: int = Field(default=64 * 1024, ge=1024)
    """Largest JSON body that is read; beyond it, 413."""
    picture_bytes: int = Field(default=10_000_000, ge=1024)
    """Largest picture that is read; beyond it, 413."""
    export_bytes: int = Field(default=2_000_000_000, ge=1024)
    """Most bytes of originals that are sent as one ZIP; beyond them, 422."""
    picture_pixels: int = Field(default=50_000_000, ge=1)
    """Most pixels of a picture that are decoded, by commands too; a JPEG may have ten times as many
    and is decoded at a reduced size. Beyond, 413."""
    body_seconds: Seconds = Field(default=15.0, gt=0)
    """Time a client has to send a whole body; beyond it, 408."""
    buffered_bytes: int = Field(default=256_000_000, ge=1024)
    """Most bytes of bodies of requests held in memory at one time, and of long answers that are
    being sent; beyond them, 429."""
    caption_words: int = Field(default=100, ge=1)
    """Most words of a caption that is searched for; beyond them, 422. A stored caption may have
    more: models read the first."""
    caption_characters: int = Field(default=2_000, ge=1)
    """Most characters a caption may have; beyond them, 422."""
    k_maximum: int = Field(default=1000, ge=1, le=1000)
    """Most hits one answer may hold; beyond, 422."""

    read_keys: str = ""
    """Keys that may read, as name:SHA-256, comma-separated; when empty, everybody may. `hasse lab
    key` makes them."""
    write_keys: str = ""
    """Keys that may write and read, in the same form; when empty, nobody may write."""
    keys_file: Annotated[KeysFile | None, BeforeValidator(KeysFile.read)] = None
    """File with more keys, `read NAME:SHA-256` or `write NAME:SHA-256` in each line; when empty,
    none."""
    open_writes: bool = False
    """Whether everybody who may read may also write, if there are no write keys."""
    searches_per_minute: int | None = Field(default=None, ge=1)
    """Searches that one key may make in a minute; when empty, any number."""
    writes_per_minute: int | None = Field(default=None, ge=1)
    """Writes that one key may make in a minute; when empty, any number."""
    image_captions: int = Field(default=32, ge=0, le=32)
    """Most captions of one uploaded picture; beyond them, 422."""
    writes_in_flight: int = Field(default=64, ge=1)
    """Most writes in flight; beyond them, 429."""
    write_seconds: Seconds = Field(default=30.0, gt=0)
    """Time limit of a write, and after which the connection of a client that does not read its
    answer is closed."""

    in_flight: int = Field(default=64, ge=1)
    """Most searches in flight; others wait in the queue."""
    queued: int = Field(default=256, ge=0)
    """Most searches in the queue; beyond them, 429."""
    deadline_seconds: Seconds = Field(default=5.0, gt=0)
    """Time limit of a search, counted from its arrival."""
    caption_batch: int = Field(default=64, ge=1)
    """Most captions that are encoded together."""
    picture_batch: int = Field(default=16, ge=1)
    """Most pictures that are encoded together."""
    search_batch: int = Field(default=64, ge=1)
    """Most points that are searched for together."""
    search_workers: int = Field(default=1, ge=1, le=256)
    """Threads that search; each searches with all cores."""
    decode_workers: int = Field(default=2, ge=1, le=256)
    """Pictures from clients that are decoded at a time; as many thumbnails of stored pictures are
    made at the same time."""
    decode_seconds: Seconds = Field(default=10.0, gt=0)
    """Most processor time to decode one picture, by commands too, rounded up to whole seconds;
    beyond it, 422."""
    thumbnail_size: int = Field(default=320, ge=16, le=2048)
    """Longest side of a thumbnail, in pixels."""
    thumbnail_cache_bytes: int = Field(default=64_000_000, ge=0)
    """Memory for cached thumbnails."""
    preview_cache_bytes: int = Field(default=1_000_000_000, ge=0)
    """Disk space for cached previews, below the library; 0 caches none."""

    partial_answers: bool = False
    """Whether a search is answered without certification while a shard of a cluster does not
    answer; otherwise 503."""

    refresh_seconds: Seconds = Field(default=1.0, gt=0)
    """Time between checks for a generation of another process."""
    compact_seconds: Seconds = Field(default=5.0, ge=0)
    """Time between checks for small segments to merge; 0 never merges."""
    ready_seconds: Seconds = Field(default=2.0, ge=0)
    """Time for which the result of a readiness probe is reused."""
    stall_seconds: Seconds = Field(default=30.0, gt=0)
    """Time after which an unfinished batch makes the service not ready."""
    drain_seconds: Seconds = Field(default=0.3, ge=0)
    """Time between failing readiness and closing the port when the service stops."""
    shutdown_seconds: Seconds = Field(default=10.0, gt=0)
    """Time for requests in flight to finish when the service stops."""
    log_format: Literal["text", "json"] = "text"
    """Format of log lines: text for people, json for collectors."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level of log lines that are written."""

    settings_file: Path | None = None
    """File with more settings, as HASSE_QUEUED=64 in each line; the environment and the command
    line win; when empty, none."""

    @property
    def index(self) -> Path:
        """Folder of the index of the library."""
        return self.library or home() / "library"

    @property
    def picture_limits(self) -> PictureLimits:
        """The size and time limits of decoding a picture."""
        return PictureLimits(self.picture_pixels, self.decode_seconds)

    @property
    def takes_writes(self) -> bool:
        """Whether writing is allowed at all."""
        return bool(self.writers) or self.open_writes

    @property
    def writes_need_key(self) -> bool:
        """Whether writing needs a key: a key to write, or with `open_writes` a key to read."""
        return bool(self.writers or self.readers)

    @property
    def readers(self) -> dict[str, str]:
        """The SHA-256 of each key that may read, by name."""
        return keys_of(self.read_keys) | dict(self.keys_file.readers if self.keys_file else {})

    @property
    def writers(self) -> dict[str, str]:
        """The SHA-256 of each key that may write, by name."""
        return keys_of(self.write_keys) | dict(self.keys_file.writers if self.keys_file else {})

    def adopt(self, new_settings: Settings) -> None:
        """Change the settings in `RELOADED` in place: all parts of a service share this value."""
        vars(self).update({name: getattr(new_settings, name) for name in RELOADED})

    @field_validator(
        *("library", "model", "settings_file"),
        *("searches_per_minute", "writes_per_minute"),
        mode="before",
    )
    @classmethod
    def _empty_is_none(cls, value: object) -> object:
        return None if value == "" else value

    @field_validator("read_keys", "write_keys")
    @classmethod
    def _check_keys(cls, keys: str) -> str:
        if keys and not keys_of(keys):  # a lone comma, for example between two unset variables
            raise ValueError("there is no key in it: name one, or leave it empty")
        return keys

    @field_validator("root_path")
    @classmethod
    def _check_prefix(cls, path: str) -> str:
        path = path.rstrip("/")
        if not PREFIX.fullmatch(path):
            raise ValueError("write it as in /hasse: a slash before each part, none at the end")
        return path

    @field_validator("trusted_proxies")
    @classmethod
    def _check_networks(cls, proxies: str) -> str:
        networks_of(proxies)
        return proxies

    @field_validator("allowed_hosts")
    @classmethod
    def _check_hosts(cls, hosts: str) -> str:
        hosts_of(hosts)
        return hosts

    @field_validator("cors_origins")
    @classmethod
    def _check_origins(cls, origins: str) -> str:
        origins_of(origins)
        return origins


@cache
def descriptions() -> Mapping[str, str]:
    """Return the sentence below each setting in this file, by its name.

    They are read only when they are shown. Pydantic would read them at every import.
    """
    (class_,) = ast.parse(inspect.getsource(Settings)).body
    return {
        ast.unparse(field.target): " ".join(str(text.value.value).split())
        for field, text in pairwise(class_.body if isinstance(class_, ast.ClassDef) else ())
        if isinstance(field, ast.AnnAssign)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
    }


def hosts_of(setting: str) -> frozenset[str]:
    """Return the names of a comma-separated setting, in lower case; ValueError for a wrong one."""
    names = frozenset(part.strip().lower() for part in setting.split(",") if part.strip())
    for name in names:
        if not _HOST_NAME.fullmatch(name):
            raise ValueError(f"{name} is no name of a host: write it as in example.org, no port")
    return names


def origins_of(setting: str) -> list[str]:
    """Return the origins of a comma-separated setting; ValueError for a wrong one."""
    origins = [part for part in (part.strip() for part in setting.split(",")) if part]
    for origin in origins:
        if origin != "*" and not _ORIGIN.fullmatch(origin):
            raise ValueError(f"{origin} is no origin: write it as in https://example.org, no path")
    return origins
