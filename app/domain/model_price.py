"""What a model's tokens cost, and how operators write that down (`MODEL_PRICES`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelPrice:
    """USD per million tokens."""

    input_usd: float
    output_usd: float
    cache_usd: float


def parse_model_prices(text: str) -> dict[str, ModelPrice]:
    """`model=in,out,cache` entries, separated by spaces or semicolons. Raises ValueError naming the bad entry."""
    prices: dict[str, ModelPrice] = {}
    for entry in text.replace(";", " ").split():
        name, _, numbers = entry.partition("=")
        parts = numbers.split(",")
        try:
            values = [float(part) for part in parts]
        except ValueError:
            values = []
        if not name or len(values) != 3 or any(not 0 <= value < 1e6 for value in values):
            raise ValueError(f"MODEL_PRICES: `{entry}` is not model=in,out,cache in USD per million tokens")
        prices[name] = ModelPrice(*values)
    return prices
