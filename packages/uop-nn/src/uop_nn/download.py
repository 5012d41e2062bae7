"""Find the files of a data set: in a folder of the user's, in the cache, or on the network. Week 5."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import io
import zlib
from dataclasses import dataclass
from pathlib import Path

from uop_ir import UopError

from .files import replacing
from .network import download
from .settings import settings

__all__ = ["DataError", "DataFile", "DataFolders", "MissingDataError", "fetch", "read_local"]


class DataError(UopError):
    """A data set that is damaged, too short, or not what its name says."""


class MissingDataError(DataError):
    """A data set that neither a folder, nor the cache, nor the network has."""


@dataclass(frozen=True)
class DataFile:
    """One file of a data set, known by what it contains.

    `size` (bytes) and `sha256` (hex) are those of the contents: after decompression where the name ends in
    .gz, because mirrors compress the same contents differently. With `packed` they are those of the file as
    it is, and it stays compressed. `urls` are tried in order.
    """

    name: str
    size: int
    sha256: str
    urls: tuple[str, ...] = ()
    packed: bool = False


@dataclass(frozen=True)
class DataFolders:
    """Where files are looked for: `user`, the folder UOP_DATA, if set; then `cache`, the folder data of
    UOP_CACHE.
    """

    user: Path | None
    cache: Path

    @classmethod
    def from_settings(cls, cache: Path | None = None) -> DataFolders:
        """Take the folders of the settings; `cache`, where given, stands for the value of UOP_CACHE.

        Raises DataError if UOP_DATA names something that is not a folder.
        """
        user = Path(settings.uop_data).expanduser() if settings.uop_data else None
        if user is not None and not user.is_dir():
            raise DataError(f"UOP_DATA is {user}, which is not a folder", remedy="unset it or name a folder")
        root = cache or Path(settings.uop_cache or Path(settings.xdg_cache_home or "~/.cache", "uop"))
        return cls(user, root.expanduser() / "data")


def fetch(file: DataFile, folders: DataFolders) -> bytes:
    """Return the contents of `file` from the user's folder, the cache or the network, the first that has it.

    What comes from the network is checked, then kept in the cache. A damaged file of the user's is an error;
    a damaged file in the cache is removed and downloaded again. Raises DataError, and MissingDataError where
    no place has the file.
    """
    if folders.user is not None and (folders.user / file.name).exists():
        return read_local(file, folders.user)
    tried = [f"UOP_DATA ({folders.user or 'not set'})", f"the cache ({folders.cache})"]
    cached = folders.cache / file.name
    if cached.exists():
        try:
            return read_local(file, folders.cache)
        except DataError as error:
            tried[1] = f"the cache ({error})"
            _remove(cached)
    for url in file.urls:
        try:
            raw = download(url, limit=2 * file.size)
            contents = _checked(file, raw, url)
        except (OSError, http.client.HTTPException, DataError) as error:
            tried.append(f"{url} ({_one_line(error)})")
            continue
        _keep(cached, raw)
        return contents
    raise MissingDataError(
        f"{file.name} not found; looked in {', '.join(tried)}",
        remedy=f"set UOP_DATA to a folder that holds {file.name}",
    )


def read_local(file: DataFile, folder: Path) -> bytes:
    """Return the contents of `file` in `folder`. Raises DataError if it is unreadable or damaged."""
    path = folder / file.name
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error
    return _checked(file, raw, str(path))


def _checked(file: DataFile, raw: bytes, origin: str) -> bytes:
    """Decompress the bytes of `file` and compare them with its pin."""
    contents = raw
    if file.name.endswith(".gz") and not file.packed:
        try:
            with gzip.open(io.BytesIO(raw)) as stream:
                contents = stream.read(file.size + 1)  # one more than expected: no bomb fills the memory
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(
                f"{origin} is damaged: {error}; expected contents of sha256 {file.sha256}, "
                f"found a file of sha256 {hashlib.sha256(raw).hexdigest()}"
            ) from error
    found = hashlib.sha256(contents).hexdigest()
    if found != file.sha256:
        raise DataError(f"{origin} is damaged: expected contents of sha256 {file.sha256}, found {found}")
    return contents


def _keep(path: Path, raw: bytes) -> None:
    try:
        with replacing(path) as out:
            out.write(raw)
    except OSError as error:
        raise DataError(
            f"cannot write {path}: {error.strerror}", remedy="set UOP_CACHE to a folder that you can write"
        ) from error


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"{path} is damaged and cannot be removed: {error.strerror}") from error


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
