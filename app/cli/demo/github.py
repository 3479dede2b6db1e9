"""What the demo does on the simulated GitHub as a person, and what it reads there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from app.domain.errors import IssuewrightError
from app.github.manifest import load_manifest

PERSON = "alice"
ORG = "acme"
REPOSITORY = "mathkit"
FULL_NAME = f"{ORG}/{REPOSITORY}"
TITLE = "Add a function that computes binomial coefficients"
BODY = (
    "We need `binomial(n, k)`: the number of ways to choose `k` of `n` things.\n\n"
    "- exact for large numbers: C(50, 25) is a good example to try\n"
    "- 0 when `k` is larger than `n`, an error when one of them is negative\n"
    "- with tests and a page that explains it\n"
)
# Each file ends in .txt here, so that no tool takes another project's code for ours.
_SOURCE = Path(__file__).with_name("mathkit")


class Simulated:
    """The control side (`/_sim/…`) of a running simulated GitHub at `url`."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._client = httpx.AsyncClient(base_url=self.url, timeout=30, trust_env=False)

    async def aclose(self) -> None:
        await self._client.aclose()

    async def do(self, action: str, **arguments: Any) -> Any:
        """One action of a person. Raises IssuewrightError when the simulator refuses it."""
        answer = await self._client.post(f"/_sim/{action}", json=arguments)
        if not answer.is_success:
            raise IssuewrightError(f"the simulated GitHub refused {action}: {answer.text[:300]}")
        return answer.json()

    async def read(self, what: str) -> Any:
        answer = await self._client.get(f"/_sim/{what}")
        answer.raise_for_status()
        return answer.json()

    async def create_world(self, webhook_url: str, webhook_secret: str) -> dict[str, Any]:
        """alice, her organization, its repository, and our App (with a new RSA key), not yet installed."""
        await self.do("users/create", login=PERSON)
        await self.do("orgs/create", login=ORG, owners=[PERSON])
        await self.do(
            "repos/create",
            owner=ORG,
            name=REPOSITORY,
            files=_files(),
            private=False,
            default_branch="main",
            by=PERSON,
        )
        manifest = load_manifest()
        made: dict[str, Any] = await self.do(
            "apps/create",
            name="Issuewright",
            owner=ORG,
            permissions=manifest["default_permissions"],
            events=manifest["default_events"],
            webhook_url=webhook_url,
            webhook_secret=webhook_secret,
        )
        return made

    async def install(self, app_id: int) -> None:
        await self.do("installations/create", app_id=app_id, account=ORG, by=PERSON)

    async def open_issue(self) -> dict[str, Any]:
        issue: dict[str, Any] = await self.do(
            "issues/open", repo=FULL_NAME, by=PERSON, title=TITLE, body=BODY
        )
        return issue

    async def label(self, number: int, name: str) -> None:
        await self.do("labels/add", repo=FULL_NAME, number=number, by=PERSON, labels=[name])

    async def find_pull(self) -> dict[str, Any] | None:
        """The only pull request of the repository, once there is one."""
        for issue in (await self._repository())["issues"]:
            if "pull" in issue:
                return dict(issue["pull"])
        return None

    async def _repository(self) -> dict[str, Any]:
        for found in (await self.read("state"))["repositories"]:
            if found["full_name"] == FULL_NAME:
                return dict(found)
        raise IssuewrightError(f"{FULL_NAME} is gone")

    async def count_writes(self) -> int:
        """Of the run. The labels that the App makes when it is installed belong to none."""
        labels = f"/repos/{FULL_NAME}/labels"
        return len([one for one in await self.read("writes") if not one["path"].endswith(labels)])


def _files() -> dict[str, str]:
    return {
        str(path.relative_to(_SOURCE)).removesuffix(".txt"): path.read_text()
        for path in sorted(_SOURCE.rglob("*.txt"))
    }
