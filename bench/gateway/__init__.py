"""The gateway: the local model proxy of one cell, which meters, prices, limits and records every model call.

`open_gateway` starts it in a process of its own; `read_trace`, `read_steps` and `to_atif` read what it wrote.
Where answers come from is in `backends`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.base.faces import lazy_face

if TYPE_CHECKING:
    from bench.gateway.atif import to_atif
    from bench.gateway.backends.providers import prices_of_role
    from bench.gateway.backends.readiness import check_model
    from bench.gateway.backends.refusals import RATE_USED_UP, USED_UP, is_used_up
    from bench.gateway.backends.replay import recorded_seed
    from bench.gateway.breakage import broken_by_cell, usage_so_far
    from bench.gateway.budget import CellLimits
    from bench.gateway.call_log import CallLine, read_trace
    from bench.gateway.config import Patience, RunBudgetConfig, State
    from bench.gateway.launch import Gateway, GatewaySpec, open_gateway
    from bench.gateway.prices import Prices
    from bench.gateway.steps import Said, Step, ToolUse, TraceSteps, read_steps
    from bench.gateway.usage import heard_tokens
else:
    __getattr__ = lazy_face(__name__)
