"""The version of a verifier: a digest of all that can change its verdicts.

Covered are the source of its module and of every module of ours that it reaches by
imports, the data files of the packages among them, the versions of what else it stands on, and
the settings that decide.
"""

import ast
import hashlib
import importlib.util
import os
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

_ROOT = "rewards"
_SHARED = {"rewards", "rewards.verifiers"}
"""Packages that hold verifiers; their data belongs to none of them."""


def version_digest(
    module: str,
    distributions: Sequence[str],
    settings: Sequence[str] = (),
    services: Sequence[str] = (),
) -> str:
    """Hexadecimal sha256 for the verifier in `module`; PackageNotFoundError for a distribution.

    `settings` are names of environment variables, `services` versions of services of ours that it
    asks, and of no others.
    """
    digest = hashlib.sha256()
    for name, path in sorted(closure(module).items()):
        for file in (path, *_data(name, path)):
            content = file.read_bytes()
            digest.update(f"{name} {file.name} {len(content)}\n".encode() + content)
    for distribution in sorted(distributions):
        digest.update(f"{distribution}=={version(distribution)}\n".encode())
    for setting in sorted(settings):
        digest.update(f"{setting}={os.environ.get(setting, '')}\n".encode())
    for service in services:
        digest.update(f"service {service}\n".encode())
    return digest.hexdigest()


def closure(module: str) -> dict[str, Path]:
    """Name -> source file of `module` and of what it imports of ours, wherever in the source."""
    roots, found, open_names = {_ROOT, module.partition(".")[0]}, {}, [module]
    while open_names:
        name = open_names.pop()
        if name in found or name.partition(".")[0] not in roots or not (path := _source(name)):
            continue
        found[name] = path
        open_names += [name.rpartition(".")[0], *_imports(name, path)]
    return found


def _source(name: str) -> Path | None:
    """The file of a module; None for a name that is none, such as a class imported from one."""
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return None
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None


def _imports(name: str, path: Path) -> Iterator[str]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _data(name: str, path: Path) -> list[Path]:
    """The files beside a package's source that are no source themselves."""
    if path.name != "__init__.py" or name in _SHARED:
        return []
    files = (file for file in path.parent.rglob("*") if file.is_file())
    return sorted(file for file in files if file.suffix not in {".py", ".pyc", ".pyi"})
