"""What the gateway's families share: the API, and paths that can't be bent by what a name contains."""

from __future__ import annotations

from urllib.parse import quote

from app.domain.errors import Unexpected
from app.domain.ports import RepoRef
from app.github.clients import Api

MAX_BODY = 65_536
"""Characters of an issue, comment or pull request body. GitHub counts code points in one place and UTF-16 units in
another, so a text must fit both."""


class Family:
    """A part of the gateway. Families are mixed into one class and share one `Api`."""

    def __init__(self, api: Api) -> None:
        self._api = api


def repo_path(repo: RepoRef, *parts: object) -> str:
    """`/repos/OWNER/NAME/…`: names are quoted whole, so a slash or `..` in one stays part of it."""
    tail = "".join(f"/{part}" for part in parts)
    return f"/repos/{quote(repo.owner, safe='')}/{quote(repo.name, safe='')}{tail}"


def quoted(name: str) -> str:
    """A branch or path for use in a URL: its slashes separate, everything else is quoted."""
    return quote(name, safe="/")


def check_body(body: str) -> None:
    """Texts are cut where they are rendered; one that is still too long is a bug of ours. Raises Unexpected."""
    length = max(len(body), len(body.encode("utf-16-le", "surrogatepass")) // 2)
    if length > MAX_BODY:
        raise Unexpected(f"a body of {length} characters was to be written; GitHub takes {MAX_BODY}")


def same_text(one: str, other: str) -> bool:
    """Whether two texts are one for GitHub, which changes line ends and trims."""
    return _plain(one) == _plain(other)


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").strip()
