"""What models cost, in USD per million tokens, from public price lists read in November 2026, and how operators write
prices down (`MODEL_PRICES`). Pure.

Cache reads count a tenth of the input price unless the official list says otherwise; some models are reported to be
cheaper, so this errs on the dear side. Prices change: `MODEL_PRICES` overrides them, and a model that is not known here
counts at the dearest price.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class ModelPrice:
    """USD per million tokens."""

    input_usd: float
    output_usd: float
    cache_usd: float


KNOWN: Mapping[str, ModelPrice] = {
    "claude-fable-5-1": ModelPrice(10, 50, 0.25),
    "claude-fable-5": ModelPrice(10, 50, 1),
    "claude-opus-5-5": ModelPrice(4, 20, 0.4),
    "claude-opus-5": ModelPrice(5, 25, 0.5),
    "claude-opus-4-8": ModelPrice(5, 25, 0.5),
    "claude-opus-4-7": ModelPrice(5, 25, 0.5),
    "claude-opus-4-6": ModelPrice(5, 25, 0.5),
    "claude-opus-4-5": ModelPrice(5, 25, 0.5),
    "claude-opus-4-1": ModelPrice(15, 75, 1.5),
    "claude-sonnet-5-5": ModelPrice(2, 10, 0.2),
    "claude-sonnet-5": ModelPrice(2, 10, 0.2),
    "claude-sonnet-4-6": ModelPrice(3, 15, 0.3),
    "claude-sonnet-4-5": ModelPrice(3, 15, 0.3),
    "claude-haiku-5-5": ModelPrice(0.5, 2.5, 0.05),  # its price for long prompts; short ones cost less
    "claude-haiku-4-5": ModelPrice(1, 5, 0.1),
}

DEAREST = max(KNOWN.values(), key=lambda price: price.output_usd)

CACHE_WRITE_5M = 1.25
CACHE_WRITE_1H = 2.0
"""Writing to the prompt cache, as multiples of the input price."""

_MILLION = 1_000_000


@dataclass(frozen=True)
class Usage:
    """Tokens of one answer. `input` counts neither what was read from the cache nor what was written to it."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0


def price_of(model: str, overrides: Mapping[str, ModelPrice]) -> ModelPrice:
    """The operator's price, else the published one of that name (a date may follow it), else the dearest of all."""
    name = model.removesuffix("[1m]")
    if name in overrides:
        return overrides[name]
    undated = without_date(name)
    known = overrides.get(undated) or KNOWN.get(undated)
    return known or max((DEAREST, *overrides.values()), key=lambda price: price.output_usd)


def without_date(model: str) -> str:
    """`claude-x-5-20260724` → `claude-x-5`."""
    stem, _, date = model.rpartition("-")
    return stem if stem and len(date) == 8 and date.isdigit() else model


def cost_usd(usage: Usage, price: ModelPrice) -> float:
    written = usage.cache_write_5m * CACHE_WRITE_5M + usage.cache_write_1h * CACHE_WRITE_1H
    return (
        (usage.input + written) * price.input_usd
        + usage.output * price.output_usd
        + usage.cache_read * price.cache_usd
    ) / _MILLION


def input_ceiling_usd(raw: bytes, price: ModelPrice) -> float:
    """The most that a request's input can cost: a token per 3 bytes, all of it written to the cache."""
    written = CACHE_WRITE_1H if b'"1h"' in raw else CACHE_WRITE_5M
    return len(raw) / 3 * price.input_usd * written / _MILLION


def output_usd(tokens: int, price: ModelPrice) -> float:
    return tokens * price.output_usd / _MILLION


def affordable_tokens(amount_usd: float, price: ModelPrice) -> int:
    """How many tokens of output that buys; a free model buys any number."""
    if price.output_usd <= 0:
        return 2**31
    return max(0, int(amount_usd * _MILLION / price.output_usd))


def parse_model_prices(text: str) -> dict[str, ModelPrice]:
    """`model=in,out,cache` entries, separated by spaces, semicolons, or commas before spaces. Raises ValueError naming the bad entry."""
    prices: dict[str, ModelPrice] = {}
    for entry in text.replace(";", " ").split():
        name, _, numbers = entry.removesuffix(",").partition("=")
        parts = numbers.split(",")
        try:
            values = [float(part) for part in parts]
        except ValueError:
            values = []
        if not name or len(values) != 3 or any(not 0 <= value < 1e6 for value in values):
            raise ValueError(f"MODEL_PRICES: `{entry}` is not model=in,out,cache in USD per million tokens")
        prices[name] = ModelPrice(*values)
    return prices
