"""The REST API: one module per area, each a list of routes."""

import importlib

AREAS = [
    "apps",
    "hooks",
    "manifest",
    "repositories",
    "issues",
    "sub_issues",
    "comments",
    "labels",
    "reactions",
    "collaborators",
    "git_refs",
    "git_objects",
    "contents",
    "checks",
    "suites",
    "pulls",
    "reviews",
    "review_comments",
    "runs",
    "meta",
    "commits",  # after the routes below /commits/{ref}/…, which its own pattern would take
]


def load_routes() -> None:
    """Imports every area, which registers its routes."""
    for area in AREAS:
        importlib.import_module(f"simulators.github.rest.{area}")
