"""Numbers that every reader of JSON takes as they are."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

Whole = Annotated[int, Field(ge=0, le=10**15)]
"""A count that every reader of JSON takes as it is, and that can be added up."""
Dollars = Annotated[float, Field(ge=0, le=1e9)]
Seconds = Annotated[float, Field(ge=0, le=1e10)]
Fraction = Annotated[float, Field(ge=0, le=1)]
