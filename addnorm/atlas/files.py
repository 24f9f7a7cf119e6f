"""Writing a file so that whoever reads it sees the old one or the new one, never half of one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_text(path: Path, content: str) -> None:
    if path.is_dir():
        raise IsADirectoryError(f"wanted a file to write, came the folder {path}; add a file name")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"wanted a folder to write into, but {path.parent} does not exist; make it first")
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".partial")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)  # mkstemp's files are private; a picture is not
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
