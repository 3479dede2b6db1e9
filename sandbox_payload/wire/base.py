"""What every model of the wire is made of."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict


class Wire(BaseModel):
    """Unknown fields are ignored (a newer side may add some), wrong types refused."""

    model_config = ConfigDict(extra="ignore", frozen=True)


def _without_nul(text: str) -> str:
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


Text = Annotated[str, AfterValidator(_without_nul)]
"""Of anybody, in which anything may stand: what no database holds is replaced, since the rest is worth having."""
