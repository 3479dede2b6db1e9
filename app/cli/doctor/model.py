"""Whether the model can be used: one small real call for each model that may be."""

from __future__ import annotations

import asyncio

import httpx

from app.cli.doctor.verdict import Verdict, failed, ok, warning, worst
from app.settings import Settings

MAX_MODELS = 8
_TIMEOUT = httpx.Timeout(12, connect=5)
_VERSION = "2023-06-01"
"""Of the Messages API; its only one."""
_HELLO = [{"role": "user", "content": "Hi"}]


async def check_model(settings: Settings) -> Verdict:
    """Never raises for what the upstream does."""
    if settings.anthropic_api_key is None:
        return failed("ANTHROPIC_API_KEY is not set", "set it: the agents can't work without a model")
    headers = {
        "x-api-key": settings.anthropic_api_key.get_secret_value(),
        "anthropic-version": _VERSION,
        "User-Agent": "issuewright",
    }
    client = httpx.AsyncClient(
        base_url=settings.anthropic_base_url, headers=headers, timeout=_TIMEOUT, trust_env=False
    )
    async with client:
        try:
            models = settings.allowed_models[:MAX_MODELS]
            asked = [_one(client, model) for model in models] or [_listing(client)]
            if settings.guardian_model and settings.guardian_model not in models:
                asked.append(_one(client, settings.guardian_model, named="GUARDIAN_MODEL"))
            return worst(await asyncio.gather(*asked))
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            return failed(
                f"{settings.anthropic_base_url} can't be reached: {reason}", "look at ANTHROPIC_BASE_URL"
            )


async def _listing(client: httpx.AsyncClient) -> Verdict:
    """Without MODEL the agent's SDK chooses, which only it knows; that the key is taken can still be seen."""
    answer = await client.get("/v1/models", params={"limit": 1})
    if answer.status_code == 404:
        return warning("MODEL is not set, so no model could be asked", "set MODEL to have it checked")
    if answer.is_success:
        return ok(f"{client.base_url} takes the key; MODEL is not set: the agent's SDK chooses")
    return _refusal(answer, "the list of models")


async def _one(client: httpx.AsyncClient, model: str, named: str = "MODEL, MODELS") -> Verdict:
    """`named`: the setting that names the model."""
    answer = await client.post("/v1/messages/count_tokens", json={"model": model, "messages": _HELLO})
    if answer.status_code in {404, 405} and not _names(answer, model):
        # Not every compatible endpoint counts; then one word of an answer is paid for.
        answer = await client.post("/v1/messages", json={"model": model, "messages": _HELLO, "max_tokens": 1})
    return ok(f"{model} answers") if answer.is_success else _refusal(answer, model, named)


def _names(answer: httpx.Response, model: str) -> bool:
    return model in _said(answer)


def _refusal(answer: httpx.Response, what: str, named: str = "MODEL, MODELS") -> Verdict:
    status, said = answer.status_code, _said(answer)
    if status in {401, 403}:
        return failed(f"the model's API refuses the key ({status}: {said})", "set ANTHROPIC_API_KEY")
    if status == 404:
        return failed(f"{what} is not there (404: {said})", f"set {named} or ANTHROPIC_BASE_URL")
    if status == 429 or status >= 500:
        return warning(f"{what} can't be had now ({status}: {said})", "run this again later")
    return failed(f"{what} is refused ({status}: {said})", "see what it says")


def _said(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["error"]["message"])[:200]
    except (ValueError, KeyError, TypeError):
        return "no reason given"
