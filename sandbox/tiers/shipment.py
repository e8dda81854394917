"""What is put into a slot of ours: the code that runs inside, how it starts, and the filter."""

from pathlib import Path

from sandbox.tiers.inside import warm

_INSIDE = Path(warm.__file__).parent
_START = """\
import os
try:
    from sandbox.tiers.inside.{supervisor} import main
    main()
except BaseException as fault:
    os.write(2, f"{{type(fault).__name__}}: {{fault}}\\n".encode())
    os._exit(1)
raise ImportError(name="sitecustomize")  # There is none, as far as a program can tell.
"""


def shipment(supervisor: str, rules: bytes) -> dict[str, bytes]:
    """Files by path. An interpreter that has `warm.HERE` on its path becomes the supervisor."""
    package = f"{warm.HERE}/sandbox"
    return {
        f"{package}/__init__.py": b"",
        f"{package}/tiers/__init__.py": b"",
        **{f"{package}/tiers/inside/{one.name}": one.read_bytes() for one in _INSIDE.glob("*.py")},
        f"{warm.HERE}/sitecustomize.py": _START.format(supervisor=supervisor).encode(),
        warm.RULES: rules,
    }
