"""What every verb shares: where it prints, and how it fails."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape

console = Console()
error_console = Console(stderr=True)


@contextmanager
def errors() -> Iterator[None]:
    """A fault of the caller's is one sentence on standard error and exit code 2, not a stack trace."""
    try:
        yield
    except (ValueError, TypeError, ImportError, OSError) as error:
        error_console.print(f"[bold red]error:[/] {escape(str(error))}")
        sys.exit(2)


def speaks_unicode() -> bool:
    """Whether box-drawing characters will survive on this terminal."""
    try:
        "├─╮●".encode(console.encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
