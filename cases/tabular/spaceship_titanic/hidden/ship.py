"""Draws passengers of a ship, and who of them was transported: the same columns on every ship, other causes on each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Table = dict[str, NDArray[Any]]
Float = NDArray[np.float64]
SERVICES = ("RoomService", "FoodCourt", "ShoppingMall", "Spa", "VRDeck")
PLANETS, DECKS, ZONE = ("Earth", "Europa", "Mars"), "ABCDEFG", 300
FIRST = ("Ada", "Bo", "Cleo", "Dov", "Esi", "Finn", "Gul", "Hana", "Ivo", "Juno", "Kai", "Lior", "Mei", "Nils", "Oona")
LAST = ("Abbot", "Brisk", "Calder", "Dunmore", "Eastly", "Farrow", "Grint", "Holst", "Imber", "Jessel", "Kestrel")
MISSING = 0.023


class Ship(NamedTuple):
    """What each column adds to the log odds of being transported."""

    services: dict[str, float]  # of the logarithm of an amount billed, halved and less two, where there is a bill
    planets: dict[str, float]
    decks: dict[str, float]
    zones: tuple[float, ...]  # of each run of 300 cabin numbers
    cryo: float
    starboard: float
    child: float


HOME = Ship(
    dict(zip(SERVICES, (-1.9, 2.1, 1.7, -2.2, -1.8), strict=True)),
    dict(zip(PLANETS, (-0.5, 0.9, 0.0), strict=True)),
    dict(zip(DECKS, (0.0, 1.0, 1.2, -0.6, -0.9, 0.0, -0.4), strict=True)),
    (-1.7, 1.8, 1.4, -2.0, 0.6, -0.1),
    2.0, 0.5, 0.9,
)  # fmt: skip


def other_ship(rng: np.random.Generator) -> Ship:
    """A ship on which the amounts of the home ship belong to other services, planets, decks and cabins."""

    def dealt(known: Mapping[str, float]) -> dict[str, float]:
        """No name keeps its amount where that can be: a turn by at least one place, and a sign."""
        values = np.roll(list(known.values()), int(rng.integers(1, len(known))))
        return dict(zip(known, (values * rng.choice([-1, 1])).tolist(), strict=True))

    signs = rng.choice([-1.0, 1.0], 3)
    zones = tuple(np.roll(HOME.zones, int(rng.integers(1, len(HOME.zones)))).tolist())
    return Ship(
        dealt(HOME.services), dealt(HOME.planets), dealt(HOME.decks), zones,
        HOME.cryo * signs[0], HOME.starboard * signs[1], HOME.child * signs[2],
    )  # fmt: skip


def passengers(
    rng: np.random.Generator,
    count: int,
    first_group: int = 1,
    ship: Ship = HOME,
    noise: np.random.Generator | None = None,
) -> tuple[Table, NDArray[np.bool_], Float]:
    """Columns of `count` passengers, whether each was transported, and the chance of that. The draw may be apart."""
    core = _core(rng, count, first_group)
    odds = _log_odds(core, ship)
    chance: Float = 1 / (1 + np.exp(-(odds - np.median(odds) + 0.15)))
    transported = (noise or rng).random(count) < chance
    return _as_found(rng, core), transported, chance


def _log_odds(core: Table, ship: Ship) -> Float:
    odds: Float = ship.cryo * core["CryoSleep"] + ship.starboard * (core["side"] == "S")
    odds = odds + ship.child * (core["Age"] < 13)
    for name in SERVICES:
        bill = core[name]
        odds += ship.services[name] * np.where(bill > 0, np.log1p(bill) / 2 - 2, -1.2)
    odds += np.array([ship.planets[name] for name in core["HomePlanet"]])
    odds += np.array([ship.decks[name] for name in core["deck"]])
    odds += np.array(ship.zones)[core["num"] // ZONE]
    return odds


def _core(rng: np.random.Generator, count: int, first_group: int) -> Table:
    """What is true of each passenger, without gaps; a group travels from one planet on one side of the ship."""
    sizes = rng.choice(4, count, p=[0.60, 0.20, 0.12, 0.08]) + 1
    group = np.repeat(np.arange(count), sizes)[:count]
    place = np.concatenate([np.arange(size) for size in sizes])[:count] + 1
    planet = rng.choice(PLANETS, count, p=[0.53, 0.25, 0.22])[group]
    upper = rng.random(count) < np.where(planet == "Europa", 0.85, 0.1)
    deck = np.where(upper, rng.choice(list("ABCD"), count), rng.choice(list("EFG"), count))
    cryo = rng.random(count) < np.where(planet == "Europa", 0.43, 0.33)
    age = np.clip(np.round(rng.gamma(4, 7.5, count)), 0, 79)
    awake = ~cryo & (age >= 13)
    core: Table = {
        "PassengerId": np.array(
            [f"{first_group + g:05d}_{p:02d}" for g, p in zip(group, place, strict=True)], dtype=object
        ),
        "HomePlanet": planet, "CryoSleep": cryo, "deck": deck, "num": rng.integers(0, 6 * ZONE, count)[group],
        "side": rng.choice(["P", "S"], count)[group], "Age": age, "VIP": rng.random(count) < 0.03,
        "Destination": rng.choice(["TRAPPIST-1e", "55 Cancri e", "PSO J318.5-22"], count, p=[0.69, 0.21, 0.10]),
    }  # fmt: skip
    for name in SERVICES:
        bill = np.round(np.exp(rng.normal(4.6, 1.6, count)))
        core[name] = np.where(awake & (rng.random(count) < 0.6), np.minimum(bill, 5_000), 0.0)
    surname = rng.choice(LAST, count)[group]
    core["Name"] = np.array([f"{a} {b}" for a, b in zip(rng.choice(FIRST, count), surname, strict=True)], dtype=object)
    return core


def _as_found(rng: np.random.Generator, core: Table) -> Table:
    """The columns of the files, with gaps."""
    parts = zip(core["deck"], core["num"], core["side"], strict=True)
    table: Table = {
        "PassengerId": core["PassengerId"], "HomePlanet": core["HomePlanet"], "CryoSleep": core["CryoSleep"],
        "Cabin": np.array([f"{deck}/{num}/{side}" for deck, num, side in parts], dtype=object),
        "Destination": core["Destination"], "Age": core["Age"], "VIP": core["VIP"],
    } | {name: core[name] for name in SERVICES} | {"Name": core["Name"]}  # fmt: skip
    for name in list(table)[1:]:
        column = table[name].astype(object)
        column[rng.random(len(column)) < MISSING] = None
        table[name] = column
    return table
