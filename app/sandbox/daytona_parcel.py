"""What goes into a remote sandbox, as files on this host: a git bundle of the repository, and a tar of the rest.

The work tree is made here as for a local sandbox, so that both stand on the same rules; inside, `sandbox_payload.boot`
only repeats it. No token for GitHub is in any of it.
"""

from __future__ import annotations

import asyncio
import io
import json
import shutil
import tarfile
import tempfile
import time
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from app.domain.errors import Refused
from app.domain.ports import SandboxOrder
from app.git.command import run_git
from app.sandbox.agent_config import lay_base_config
from app.sandbox.bundle import PACKAGE, read_bundle
from app.sandbox.state_dir import check_name
from app.sandbox.worktree import make_work_tree
from sandbox_payload.wire import ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Iterator

_BUNDLE_S = 600.0
_LEFTOVER_S = 24 * 3600.0
PARCEL = "parcel.tar.gz"
REPOSITORY = "repository.bundle"
_PROVIDER_SETS = frozenset({"CALLBACK_URL", "ANTHROPIC_BASE_URL", "HTTPS_PROXY", "SANDBOX_TOKEN_FILE"})


@dataclass(frozen=True)
class Parcel:
    """Two files to upload side by side."""

    tar: Path
    repository: Path


def check_environment(order: SandboxOrder) -> None:
    """Raises Refused for variables that are not the contract's."""
    foreign = sorted(set(order.environment) - (frozenset(ENVIRONMENT) - _PROVIDER_SETS))
    if foreign:
        raise Refused(f"not part of a sandbox's environment: {', '.join(foreign)}", code="environment")


@contextmanager
def scratch(root: Path) -> Iterator[Path]:
    """A private directory below `root`, gone afterwards; also goes what killed workers left a day ago."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    for left in root.iterdir():
        if time.time() - left.stat().st_mtime > _LEFTOVER_S:
            shutil.rmtree(left, ignore_errors=True)
    directory = Path(tempfile.mkdtemp(prefix="parcel-", dir=root))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


async def pack_parcel(
    order: SandboxOrder, directory: Path, app_url: str, payload: Path, model_url: str = ""
) -> Parcel:
    """Both files, in `directory`, which must be empty; `payload` is the package directory that is packed. `model_url`:
    the model's own address for an agent that does not go through the gateway.

    Raises GitFailed, OSError, Refused.
    """
    work = directory / "work"
    work.mkdir()
    await make_work_tree(order.mirror, work, order.branch, order.start_sha)
    laid = await lay_base_config(work, order.start_sha, order.agent_config_sha)
    index = (await run_git("ls-files", "-v", "-z", cwd=work)) if laid else b""
    marked = [line[2:] for line in index.decode("utf-8", "surrogateescape").split("\0") if line[:1] == "S"]
    repository = directory / REPOSITORY
    await run_git("bundle", "create", "--quiet", str(repository), "--all", cwd=work, timeout_s=_BUNDLE_S)
    plan = {
        "branch": order.branch,
        "start_sha": order.start_sha,
        "laid": list(laid),
        "hidden": marked,
        "environment": {
            **order.environment,
            "CALLBACK_URL": app_url,
            "ANTHROPIC_BASE_URL": model_url or f"{app_url}/api/v1/sandboxes/{order.sandbox_id}/model",
        },
    }
    files = {f"inputs/{check_name(name)}": data for name, data in order.inputs.items()}
    files["plan.json"] = json.dumps(plan).encode()
    packed = (await asyncio.to_thread(read_bundle, payload)).files.items()
    files |= {f"payload/{PACKAGE}/{name}": data for name, data in packed}
    tar = directory / PARCEL
    await asyncio.to_thread(_write_tar, tar, files, work, laid)
    return Parcel(tar, repository)


def _write_tar(tar: Path, files: Mapping[str, bytes], work: Path, laid: tuple[str, ...]) -> None:
    exclude = work / ".git" / "info" / "exclude"
    excluded = {"exclude": exclude.read_bytes()} if exclude.exists() else {}
    with tarfile.open(tar, "w:gz", compresslevel=1) as out:
        for name, data in {**files, **excluded}.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o600
            out.addfile(entry, io.BytesIO(data))
        for path in laid:
            # A link stays a link: nothing of this host is read through it.
            if (work / path).is_symlink() or (work / path).is_file():
                out.add(work / path, arcname=f"laid/{path}", recursive=False)
