"""What every model of the wire is made of."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Wire(BaseModel):
    """Unknown fields are ignored (a newer side may add some), wrong types refused."""

    model_config = ConfigDict(extra="ignore", frozen=True)
