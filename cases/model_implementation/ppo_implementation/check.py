"""Judges a PPO agent by distributions, gradients and weights, which data.py has worked out by the judge's own methods.

What the driver returns comes from the process that has the agent's ppo.py; expected values never go there.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from formulas import assert_drawn, policy

from bench.casekit.given_code import altered
from bench.judge import array, check, close, integer, mapping, number, run_command, sequence, string

TIMES = 1500
NONE = "<class 'inspect._empty'>"
ARGUMENTS = [("state_dim", NONE), ("action_dim", NONE), ("lr_actor", "0.0003"), ("lr_critic", "0.001"),
             ("gamma", "0.99"), ("K_epochs", "4"), ("eps_clip", "0.2"), ("continuous_action_space", "True"),
             ("action_std_init", "0.6")]  # fmt: skip
CONTINUOUS = {"state_dim": 4, "action_dim": 6, "continuous_action_space": True}
DISCRETE = {"state_dim": 3, "action_dim": 4, "continuous_action_space": False}
FACTORS = (1.0, 0.01, 1e4)
"""Of the variances: actions may be near each other, and far outside of [-1, 1]. At the last, states are far, too."""
CALLS = ["import", "act", "evaluate", "select_action", "update"]
WRITTEN = {"ActorCritic.act", "ActorCritic.evaluate", "PPO.select_action", "PPO.update"}


def _jobs(ws: Any, call: str) -> list[tuple[int, dict[str, Any]]]:
    return [(n, job) for n, job in enumerate(json.loads(ws.hidden("jobs.json").read_bytes())) if job["call"] == call]


def _expected(ws: Any) -> dict[str, Any]:
    with np.load(ws.hidden("expected.npz"), allow_pickle=False) as arrays:
        return dict(arrays)


def _far(state: Any, factor: float) -> Any:
    """One number of a far state is 100 or -100."""
    return state if factor < FACTORS[-1] else state * 100 / np.abs(state).max()


@check(weight=2, required=True)
def act_draws_from_the_policy(ws: Any) -> None:
    """`act(state)` gives actions with the policy's distribution, their log probabilities and the value, detached."""
    ways = [(config, factor) for config in (CONTINUOUS, {**CONTINUOUS, "action_dim": 1}) for factor in FACTORS]
    for config, factor in (*ways, (DISCRETE, 1.0), (DISCRETE, 1e4)):
        seed, wide = ws.rng.getrandbits(40), config["action_dim"]
        state = _far(ws.numpy_rng("state").normal(size=config["state_dim"]), factor).astype(np.float32)
        answer = ws.drive("driver.py:acted", config, seed, factor, state, TIMES, ws.seed_for("act", bits=31))
        found = mapping(answer, keys=("rows", "shapes", "gradient"))
        shape = (wide,) if config["continuous_action_space"] else ()
        shapes = [sequence(it) for it in sequence(found["shapes"], length=3)]
        assert [[integer(size) for size in it] for it in shapes] == [list(shape), [], []], f"act returns {shapes}"
        assert found["gradient"] is False, "what act returns has a gradient"
        actions, logprobs, values = sequence(found["rows"], length=3)
        mean, value, var = policy(config, seed, state.astype(float))
        assert_drawn(config, array(actions, (TIMES, *shape)), array(logprobs, (TIMES,)), mean, factor * var)
        close(values, np.full(TIMES, value), rtol=1e-3, atol=1e-3, what="the value")


@check(weight=3, required=True)
def evaluate_matches(ws: Any) -> None:
    """`evaluate(state, action)` gives log probabilities, values and entropies with their gradients, n from 1 on."""
    known = _expected(ws)
    for n, job in _jobs(ws, "evaluated"):
        given = [known[f"{n}_{k}"] for k in range(3)]
        found = mapping(
            ws.drive("driver.py:evaluated", job["config"], job["seed"], given, job["made"]), keys=("parts", "slopes")
        )
        names, slopes = ("log probabilities", "values", "entropies"), sequence(found["slopes"], length=3)
        for k, (name, part) in enumerate(zip(names, sequence(found["parts"], length=3), strict=True)):
            close(part, known[f"{n}_part_{k}"], rtol=1e-4, atol=1e-4, what=name)
            told, largest = mapping(slopes[k]), max(1.0, *map(abs, job["slopes"][k].values()))
            for parameter, slope in job["slopes"][k].items():
                apart = abs(number(told.get(parameter)) - slope)
                assert apart <= 1e-3 * largest, f"the gradient of {name} to {parameter} is off by {apart:.4g}"


@check(weight=2, required=True)
def selection_fills_the_buffer(ws: Any) -> None:
    """`select_action(state)` acts by the old policy, keeps four entries a step, and returns plain values."""
    for config, factor in ((CONTINUOUS, 1.0), (CONTINUOUS, 1e4), (DISCRETE, 1.0), (DISCRETE, 1e4)):
        seed, rng = ws.rng.getrandbits(40), ws.numpy_rng("states")
        state = _far(rng.normal(size=config["state_dim"]), factor)
        states = [state, state.astype(np.float32), np.round(3 * state).astype(np.int64)] * 120
        answer = ws.drive("driver.py:selected", config, seed, factor, states, ws.seed_for("select", bits=31))
        found = mapping(answer, keys=("actions", "kinds", "kept", "kept_kinds", "others", "states", "asked"))
        asked = integer(found["asked"])
        assert asked == len(states), f"{len(states)} actions were selected by {asked} calls of policy_old.act"
        kinds = {tuple(map(str, sequence(kind))) for kind in sequence(found["kinds"], length=len(states))}
        wanted = {("ndarray", "float32")} if config["continuous_action_space"] else {("int", "")}
        assert kinds == wanted, f"actions are {sorted(kinds)}"
        kept = [string(kind) for kind in sequence(found["kept_kinds"])]
        assert kept == ["torch.float32"], f"states in the buffer are {kept}"
        assert not any(integer(it) for it in sequence(found["others"])), "select_action adds rewards or terminals"
        for before, after in zip(states, sequence(found["states"], length=len(states)), strict=True):
            assert np.array_equal(array(after, before.shape), before), "select_action has changed the state"
        shape = (config["action_dim"],) if config["continuous_action_space"] else ()
        actions = np.stack([array(it, shape) for it in sequence(found["actions"], length=len(states))])
        rows = [
            np.stack([array(it) for it in sequence(part, length=len(states))])
            for part in sequence(found["kept"], length=4)
        ]
        close(rows[0], np.stack([it.astype(np.float32) for it in states]), what="states in the buffer")
        close(rows[1], actions, what="actions in the buffer")
        for first in range(3):
            mean, value, _ = policy(config, seed + 1, states[first].astype(np.float64))
            var = factor * policy(config, seed, states[first].astype(np.float64))[2]
            assert_drawn(config, actions[first::3], rows[2][first::3], mean, var)
            close(rows[3][first::3], np.full(120, value), rtol=1e-3, atol=1e-3, what="values in the buffer")


def _parts(config: dict[str, Any]) -> list[slice]:
    """Where the actor's and the critic's weights stand: in this order, as their names have."""
    sizes = [(config["state_dim"] + 1) * 64 + 65 * 64 + 65 * wide for wide in (config["action_dim"], 1)]
    return [slice(0, sizes[0]), slice(sizes[0], sum(sizes))]


@check(weight=4, required=True)
def updates_match(ws: Any) -> None:
    """After each `update()` both policies have the judge's weights: plain gradient descent, and the given Adam."""
    known = _expected(ws)
    names = ("states", "actions", "logprobs", "state_values", "rewards", "is_terminals")
    for n, job in _jobs(ws, "updated"):
        rollouts = [{name: known[f"{n}_{k}_{name}"] for name in names} for k in range(job["rollouts"])]
        answer = ws.drive("driver.py:updated", job["config"], job["seed"], job["rate"], rollouts, job["made"])
        begin = known[f"{n}_begin"]
        for k, entry in enumerate(sequence(answer, length=job["rollouts"])):
            new, old, left, stays = sequence(entry, length=4)
            assert stays is True, "when policy changes after the update, policy_old changes with it"
            wanted = known[f"{n}_{k}_weights"]
            for part, place in zip(("actor", "critic"), _parts(job["config"]), strict=True):
                moved = float(np.abs(wanted - begin)[place if job["rate"] else slice(None)].max())
                # Adam divides by gradients that may be near zero, where float32 rounds away their sign.
                allowed = (0.005 if job["rate"] else 0.1) * moved + 1e-6
                for name, weights in (("policy", new), ("policy_old", old)):
                    apart = np.abs(array(weights, wanted.shape) - wanted)[place]
                    share = float((apart > allowed).mean())
                    assert share <= (0 if job["rate"] else 0.01), (
                        f"{name}.{part} after update {k + 1} of {len(rollouts[k]['rewards'])} steps is off by "
                        f"{apart.max():.3g}, where it moves by {moved:.3g}"
                    )
            lengths = [integer(it) for it in sequence(left, length=6)]
            assert not any(lengths), f"the buffer has {lengths} entries after the update"


@check(weight=1, required=True)
def torch_is_left_alone(ws: Any) -> None:
    """Neither the import nor a method changes whether gradients are computed or parts of an agent, or seeds torch."""
    starts = [ws.seed_for(name, bits=31) for name in ("start", "other start")]
    for config in (CONTINUOUS, DISCRETE):
        answer = ws.drive("driver.py:left_alone", config, ws.rng.getrandbits(40), starts)
        found = mapping(answer, keys=CALLS)
        for name in CALLS:
            stays, apart = sequence(found[name], length=2)
            assert stays is True, f"{name} changes whether gradients are computed, or parts of the agent"
            assert apart is True, f"{name} seeds torch's generator"


@check(weight=2, required=True)
def small_tasks_are_learned(ws: Any) -> None:
    """Agents learn which of three actions, or which number, is right in each of three states, for two seeds."""
    # At 0.01 one right agent in some hundred ends at the wrong side of the last tanh, and stays there.
    rates = {"state_dim": 3, "lr_actor": 0.004, "lr_critic": 0.02, "K_epochs": 12}
    for turn in range(2):
        right = [ws.rng.randrange(3) for _ in range(3)]
        plan = {**rates, "action_dim": 3, "continuous_action_space": False}
        out = array(ws.drive("driver.py:learned", plan, ws.seed_for(f"{turn}", bits=31), right, 8), (3, 3))
        chance = float(out[np.arange(3), right].mean())
        assert chance > 0.6, f"the right action has the probability {chance:.2f} after learning, 0.33 before"
        goals = [ws.rng.uniform(0.4, 0.8) * ws.rng.choice([1, -1]) for _ in range(3)]
        plan = {**rates, "action_dim": 1, "action_std_init": 0.4}
        plan["continuous_action_space"] = True
        out = array(ws.drive("driver.py:learned", plan, ws.seed_for(f"{turn} c", bits=31), goals, 16), (3, 1))
        apart = float(np.abs(out[:, 0] - goals).mean())
        ws.metric("distance", apart)
        assert apart < 0.35, f"the mean action is {apart:.2f} away from the right one after learning, 0.6 before"


@check(weight=0, required=True)
def visible_test_passes(ws: Any) -> None:
    """The visible test ends well; arguments, default values, `save` and `load` are what they were."""
    weights, told = sequence(ws.drive("driver.py:kept", CONTINUOUS, ws.rng.getrandbits(40)), length=2)
    names = [tuple(map(string, sequence(it, length=2))) for it in sequence(told)]
    assert names == ARGUMENTS, f"PPO takes {names}"
    saved, *loaded = (array(it) for it in sequence(weights, length=3))
    assert all(np.array_equal(saved, it) for it in loaded), "another agent loads other weights than were saved"
    run_command(ws, "python test_ppo.py")


@check(weight=0, guard=True)
def given_code_stays(ws: Any) -> None:
    """What `ppo.py` gives is as it was; comments, docstrings, form and further definitions are free."""
    changed = altered(ws.original("ppo.py").read_text("utf-8"), ws.source("ppo.py"), WRITTEN)
    assert not changed, f"given in ppo.py, and changed: {', '.join(changed)}"
