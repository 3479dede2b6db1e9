"""Checks what the pull request holds: clones its branch and runs its code."""

from __future__ import annotations

import ast
import asyncio
import math
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from app.domain.errors import IssuewrightError
from app.git.command import run_git

N, K = 50, 25
COMPUTE_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Verified:
    """`result` is what the branch's own code computed; `files` are the paths it changes."""

    head_sha: str
    files: list[str]
    source: str
    result: str


async def verify_branch(clone_url: str, branch: str, base: str, directory: Path) -> Verified:
    """Raises IssuewrightError saying what is not as it should be."""
    # Named fully: refs are what we are told, and an option could hide in them.
    refs = [f"refs/heads/{name}:refs/remotes/origin/{name}" for name in (branch, base)]
    await run_git("init", "--quiet", str(directory))
    await run_git("fetch", "--quiet", "--no-tags", clone_url, *refs, cwd=directory)
    await run_git("checkout", "--quiet", "--detach", f"refs/remotes/origin/{branch}", cwd=directory)
    head = (await run_git("rev-parse", "HEAD", cwd=directory)).decode().strip()
    changed = await run_git("diff", "--name-only", "-z", f"refs/remotes/origin/{base}...HEAD", cwd=directory)
    files = sorted(path for path in changed.decode().split("\0") if path)
    source, function = _find_function(directory, files)
    result = await _compute(directory, source, function)
    if result != str(math.comb(N, K)):
        raise IssuewrightError(f"the branch's {source} computes C({N},{K}) = {result[:80]}, which is wrong")
    return Verified(head, files, source, result)


def _find_function(directory: Path, files: list[str]) -> tuple[str, str]:
    for path in files:
        if not path.endswith(".py") or Path(path).name.startswith("test_"):
            continue
        for node in ast.parse((directory / path).read_text()).body:
            if isinstance(node, ast.FunctionDef) and len(node.args.args) == 2 and "binom" in node.name:
                return path, node.name
    raise IssuewrightError(
        f"the branch has no function for binomial coefficients (it changes {', '.join(files)})"
    )


async def _compute(directory: Path, source: str, function: str) -> str:
    module = source.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    program = str(Path(__file__).with_name("compute.py"))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        program,
        str(directory),
        module,
        function,
        str(N),
        str(K),
        cwd=directory,
        env={},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(COMPUTE_TIMEOUT_S):
            output, error = await process.communicate()
    except BaseException as cut:
        with suppress(ProcessLookupError):  # it has just ended
            process.kill()
        await process.wait()
        if not isinstance(cut, TimeoutError):
            raise
        raise IssuewrightError(
            f"the branch's {source} did not answer within {COMPUTE_TIMEOUT_S:.0f} s"
        ) from None
    if process.returncode:
        last = error.decode(errors="replace").strip().splitlines()[-1:]
        raise IssuewrightError(f"the branch's {source} failed: {' '.join(last)}")
    return output.decode().strip()
