"""Find the pictures in a folder and all folders below it."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from pathspec import GitIgnoreSpec

from hasse.models.datasets.caption_files import caption_files
from hasse.models.datasets.dataset import DatasetError
from hasse.models.datasets.source import read_text
from hasse.models.images.formats import PICTURE_SUFFIXES, is_picture
from hasse.models.regular_file import raise_system_error
from hasse.models.spelling import composed

IGNORE_FILE = ".hasseignore"

# Thumbnails and bins of NAS systems and photo programs, and folders of the file system.
DEFAULT_EXCLUDES = (
    ".*",  # hidden, and most of version control
    *(
        "@eaDir/",
        "@Recycle/",
        "@Recently-Snapshot/",
        "@SynoResource/",
        "\\#recycle/",
        "\\#snapshot/",
    ),
    *("$RECYCLE.BIN/", "System Volume Information/", "lost+found/", "__MACOSX/", "CVS/"),
    *(
        "**/*.photoslibrary/resources/",
        "**/*.photoslibrary/scopes/",
        "**/*.photolibrary/Thumbnails/",
    ),
    *("**/*.aplibrary/Thumbnails/", "**/*.aplibrary/Previews/", "*.lrdata/"),
    *("**/CaptureOne/Cache/", "**/*.cocatalog/Cache/", "**/digikam-thumbnails/"),
)

# Unsupported picture formats. A file may still hold another format than its name says.
_OTHER_PICTURES = """
.ai .cdr .eps .exr .hdr .ico .jxl .jxr .pcx .ppm .psb .psd .svg .tga .xcf
"""
# Extensions of files that are not pictures; such files are not opened.
_NO_PICTURES = """
.3gp .7z .aac .aae .aif .aiff .apk .avi .bak .bat .bin .bz2 .c .caption .cfg .cpp .css .csv .db
.deb .dll .dmg .doc .docx .dop .epub .exe .flac .flv .gz .h .htm .html .ics .ini .insv .iso .jar
.java .js .json .jsonl .lnk .log .lrv .m2ts .m4a .m4v .md .mkv .mov .mp3 .mp4 .mpeg .mpg .msi .mts
.ndjson .npy .npz .numbers .odp .ods .odt .ogg .ogv .opus .pages .parquet .part .pdf .php .plist
.pp3 .ppt .pptx .pt .pth .py .rar .rb .rs .rst .rtf .safetensors .sh .so .sql .sqlite .srt .tar
.tex .tgz .thm .tmp .toml .ts .tsv .ttf .txt .vcf .vtt .wav .webm .wma .wmv .woff .woff2 .xls
.xlsx .xml .xmp .xz .yaml .yml .zip .zst
"""
_OTHER = frozenset(_OTHER_PICTURES.split())
_KNOWN = frozenset(_NO_PICTURES.split())


@dataclass(slots=True)
class FolderContents:
    """The files of a folder. Names are relative to it, with forward slashes.

    Attributes:
        pictures: files that may be pictures, in the order of their names.
        passed_over: number of files and folders of each kind that are ignored.
        other_pictures: pictures in unsupported formats.
        links: links to folders, which are not followed.
        outside: links to files outside of the folder.
        no_files: pipes, sockets and devices with the name of a picture.
        unread: unreadable folders, with the reason. Their content is unknown.
        mounts: folders on another device than their parent, with their device.
    """

    pictures: list[str] = field(default_factory=list)
    passed_over: Counter[str] = field(default_factory=Counter)
    other_pictures: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    no_files: list[str] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)
    mounts: dict[str, int] = field(default_factory=dict)


# Patterns, each with its base folder: "" or with a slash at its end.
_Rules = tuple[tuple[str, GitIgnoreSpec], ...]


def walk(
    root: Path,
    exclude: Sequence[str] = (),
    captions: Path | None = None,
    *,
    within: str = "",
    follow_links: bool = False,
) -> FolderContents:
    """Find the pictures in a folder and below it, except through links to folders.

    A file with an unknown extension is a picture if it begins like one.

    Args:
        root: the folder.
        exclude: patterns of gitignore, after `DEFAULT_EXCLUDES` and the `.hasseignore` files of all
            folders. The last one that matches decides, so `!@eaDir/` brings a default back.
        captions: a table of captions, which is not counted.
        within: walk only this part of the folder.
        follow_links: include links to files outside of the folder.

    Raises:
        DatasetError: a pattern or a `.hasseignore` file cannot be read.
    """
    contents = FolderContents()
    # NAS systems have names that begin with "#", which begins a comment in a file.
    literal = [f"\\{pattern}" if pattern.startswith("#") else pattern for pattern in exclude]
    excluded = ("", _spec(literal, "--exclude"))
    start = f"{within}/" if within else ""
    rules: dict[str, _Rules] = {start: _rules_above(root, within)}
    files_of = _Files(root, captions, follow_links, contents)
    devices: dict[str, int] = {}

    def unread(error: OSError) -> None:
        folder = Path(error.filename).relative_to(root).as_posix()
        contents.unread[folder] = error.strerror or ""

    for at, folders, files in os.walk(root / within, onerror=unread):
        folder = Path(at).relative_to(root).as_posix()
        base = "" if folder == "." else f"{folder}/"
        devices[at] = _device(at)
        if base != start and devices[at] != devices[str(Path(at).parent)]:
            contents.mounts[folder] = devices[at]
        rules_here = _with_ignore_file(rules.pop(base), Path(at), base, IGNORE_FILE in files)
        all_rules = (*rules_here, excluded)
        included = [name for name in folders if not _excluded(f"{base}{name}/", all_rules)]
        _count_excluded(set(folders) - set(included), "folder", contents.passed_over)
        folders[:] = included
        rules |= {f"{base}{name}/": rules_here for name in included}
        contents.links += [base + name for name in included if Path(at, name).is_symlink()]
        names = [name for name in files if not _excluded(base + name, all_rules)]
        _count_excluded(set(files) - set(names) - {IGNORE_FILE}, "file", contents.passed_over)
        files_of.sort(Path(at), base, names)
    contents.pictures.sort()
    return contents


def _device(folder: str) -> int:
    try:
        return Path(folder).stat().st_dev
    except OSError:  # removed since
        return 0


def is_excluded(root: Path, within: str, exclude: Sequence[str]) -> bool:
    """Return whether `walk` leaves out a folder below another."""
    rules = (*_rules_above(root, within), ("", _spec(exclude, "--exclude")))
    folders = (within, *map(str, PurePath(within).parents[:-1]))
    return any(_excluded(f"{folder}/", rules) for folder in folders)


def _rules_above(root: Path, within: str) -> _Rules:
    """Return the rules of the folders above a part of `root`."""
    rules: _Rules = (("", _spec(DEFAULT_EXCLUDES, "the defaults")),)
    if within:
        for place in reversed(PurePath(within).parents):
            base = "" if str(place) == "." else f"{place}/"
            has_file = (root / place / IGNORE_FILE).is_file()
            rules = _with_ignore_file(rules, root / place, base, has_file)
    return rules


def _with_ignore_file(rules: _Rules, folder: Path, base: str, has_file: bool) -> _Rules:
    return (*rules, (base, _ignore_file(folder / IGNORE_FILE))) if has_file else rules


@dataclass(frozen=True, slots=True)
class _Files:
    """Sorts the files of each folder into `contents`."""

    root: Path
    captions: Path | None
    follow_links: bool
    contents: FolderContents

    def sort(self, folder: Path, base: str, names: Iterable[str]) -> None:
        """Add the files of a folder; `base` is its name below the root."""
        contents = self.contents
        lists = {
            "other picture": contents.other_pictures,
            "link": contents.outside,
            "no file": contents.no_files,
        }
        pictures, others = [], []
        for name in names:
            kind = self._kind(folder / name)
            if kind == "picture":
                pictures.append(name)
            elif kind in lists:
                lists[kind].append(base + name)
            else:
                others.append((name, kind))
        contents.pictures += [base + name for name in pictures]
        files = [name for name, _ in others]
        beside_pictures = caption_files(files, set(pictures)) if self.captions is None else ()
        for name, kind in others:
            if name not in beside_pictures and folder / name != self.captions:
                contents.passed_over[kind] += 1

    def _kind(self, path: Path) -> str:
        suffix = path.suffix.lower()
        if suffix in _KNOWN:
            return suffix
        has_picture_name = suffix in PICTURE_SUFFIXES
        try:
            if path.is_symlink() and not self.follow_links and leads_out(path, self.root):
                return "link" if has_picture_name else "link out of the folder"
            if has_picture_name and not stat.S_ISREG(path.stat().st_mode):
                return "no file"
        except OSError:  # reported when it is read
            pass
        return "picture" if has_picture_name else _kind(path)


def leads_out(path: Path, root: Path) -> bool:
    """Return whether a path leads out of a folder by links."""
    return not os.path.realpath(path).startswith(f"{os.path.realpath(root).rstrip('/')}/")


def _kind(path: Path) -> str:
    """Return the kind of a file without the name of a picture, by its first bytes."""
    suffix = path.suffix.lower()
    try:
        if is_picture(path):
            return "picture"
    except OSError as error:
        raise_system_error(error)
        return "unreadable file"
    if suffix in _OTHER:
        return "other picture"
    return suffix or "file without extension"


def _spec(patterns: Iterable[str], origin: str) -> GitIgnoreSpec:
    try:
        return GitIgnoreSpec.from_lines(map(composed, patterns))
    except ValueError as error:
        raise DatasetError(f"a pattern of {origin} cannot be read ({error}): correct it") from error


def _ignore_file(path: Path) -> GitIgnoreSpec:
    text = read_text(path) if path.stat().st_size else ""
    return _spec(text.splitlines(), str(path))


def _excluded(name: str, rules: _Rules) -> bool:
    for base, spec in reversed(rules):
        is_included = spec.check_file(composed(name.removeprefix(base))).include
        if is_included is not None:
            return is_included
    return False


def _count_excluded(names: Iterable[str], what: str, counts: Counter[str]) -> None:
    for name in names:
        counts[f"hidden {what}" if name.startswith(".") else f"excluded {what}"] += 1
