"""Global node ids: opaque for callers, decodable here."""

from base64 import urlsafe_b64decode, urlsafe_b64encode

PREFIX = {
    "LabeledEvent": "LE",
    "User": "U",
    "Organization": "O",
    "Bot": "BOT",
    "App": "A",
    "Installation": "IN",
    "Repository": "R",
    "Issue": "I",
    "PullRequest": "PR",
    "IssueComment": "IC",
    "Label": "LA",
    "Reaction": "REA",
    "Ref": "REF",
    "Commit": "C",
    "Blob": "B",
    "CheckRun": "CR",
    "CheckSuite": "CS",
    "WorkflowRun": "WFR",
    "PullRequestReview": "PRR",
    "PullRequestReviewComment": "PRRC",
    "PullRequestReviewThread": "PRRT",
}
KIND = {prefix: kind for kind, prefix in PREFIX.items()}


def node_id(kind: str, key: int | str) -> str:
    """The node id of the thing of this kind with this id."""
    return f"{PREFIX[kind]}_{urlsafe_b64encode(str(key).encode()).decode().rstrip('=')}"


def parse_node_id(text: str) -> tuple[str, str] | None:
    """Kind and id, or None for a text that never was a node id."""
    prefix, _, coded = text.partition("_")
    try:
        key = urlsafe_b64decode(coded + "=" * (-len(coded) % 4)).decode()
    except ValueError:
        return None
    return (KIND[prefix], key) if prefix in KIND and key else None
