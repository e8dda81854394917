"""What is put into boxes beside a program, as files: our scripts, as one archive.

The archive holds byte code too, which the same version of Python runs without compiling.
"""

import io
import py_compile
import tempfile
import zipfile
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path

from sandbox.tiers import Limits, Program

_STARTER = """import sys
sys.path.insert(0, "inside.zip")
from inside.{script} import main
del sys.path[0]
main()
"""


@cache
def _archive() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive, tempfile.TemporaryDirectory() as folder:
        for source in files("sandbox.judging.inside").iterdir():
            if source.name.endswith(".py"):
                archive.writestr(f"inside/{source.name}", source.read_bytes())
                byte_code = _compiled(source.read_bytes(), source.name, Path(folder))
                archive.writestr(f"inside/{source.name}c", byte_code)
    return content.getvalue()


def _compiled(source: bytes, name: str, folder: Path) -> bytes:
    (folder / name).write_bytes(source)
    target = folder / f"{name}c"
    py_compile.compile(
        str(folder / name), str(target), f"inside/{name}",
        doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )  # fmt: skip
    return target.read_bytes()


def harness(code: str, limits: Limits) -> Program:
    """A program as a module whose functions can be called through its channel."""
    return _program("harness", {"solution.py": code.encode()}, limits)


def judge(tests: str, limits: Limits) -> Program:
    """Tests about a program in another box, reached through the channel."""
    return _program("judge", {"tests.py": tests.encode()}, limits)


def _program(script: str, beside: Mapping[str, bytes], limits: Limits) -> Program:
    starter = _STARTER.format(script=script).encode()
    own = {"main.py": starter, "inside.zip": _archive()}
    return Program(("python", "main.py"), {**beside, **own}, limits=limits, channel=True)
