"""Compile Triton kernels for a GPU, on a machine without one.

The interpreter in which kernels are tested takes more than the compiler does, and both cannot be
had in one process, so this is also a program: a module's name and its kernels come as JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

# What a kernel takes: of each parameter Triton's name of the type, or the value of a constant.
Signature = Mapping[str, str | int]


def compiled(module: str, kernels: Mapping[str, Signature]) -> list[str]:
    """Compile kernels of a module, by name, for compute capability 9.0; return those that did.

    Raises:
        AssertionError: the compiler refused one.
    """
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-m", __name__, module, json.dumps(dict(kernels))],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def main(module: str, kernels: Mapping[str, Signature]) -> None:
    """Compile, and print the name of each kernel."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    loaded: Any = importlib.import_module(module)
    for name, given in kernels.items():
        kernel = getattr(loaded, name)
        types = {key: v if isinstance(v, str) else "constexpr" for key, v in given.items()}
        constants = {key: value for key, value in given.items() if not isinstance(value, str)}
        source = ASTSource(fn=kernel, signature=types, constexprs=constants)
        triton.compile(source, target=GPUTarget("cuda", 90, 32))
        sys.stdout.write(f"{name}\n")


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
