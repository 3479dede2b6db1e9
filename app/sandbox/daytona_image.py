"""Makes the snapshot that sandboxes start from, out of `app.sandbox.image`'s recipe."""

from __future__ import annotations

from collections.abc import Callable

from app.sandbox.daytona_account import Size
from app.sandbox.daytona_client import DaytonaClient
from app.sandbox.daytona_states import state_text
from app.sandbox.image import BASE, recipe_lines

BUILD_S = 1800.0


async def ensure_snapshot(
    client: DaytonaClient, name: str, size: Size, say: Callable[[str], None], *, replace: bool
) -> str:
    """Its state in the end. One that is there stays as it is unless `replace` says so: snapshots don't change.

    Raises what `ports.Sandboxes` names; a build that fails is a RetryAt or Refused with Daytona's reason.
    """
    sdk = await client.sdk()
    found = await client.find_snapshot(name)
    if found is not None and not replace:
        return state_text(found.state)
    if found is not None:
        await client.call(lambda daytona: daytona.snapshot.delete(found))
    params = sdk.CreateSnapshotParams(
        name=name,
        image=sdk.Image.base(BASE).dockerfile_commands(list(recipe_lines())),
        resources=sdk.Resources(cpu=size.cpu, memory=size.memory_gb, disk=size.disk_gb),
    )
    made = await client.call(lambda daytona: daytona.snapshot.create(params, on_logs=say), BUILD_S)
    return state_text(made.state)
