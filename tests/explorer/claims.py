"""A claim on a card that was copied, for the explorer: the register with its database, the card's device and a thief.

Answers get lost, devices ask again with the key that they have stored, an operator approves, refuses and revokes, and
the claim ends. Each move runs the register's own transaction (:mod:`nightjar.coordinator.enrolment.register`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import sqlalchemy as sa
from msgspec import structs

from nightjar.coordinator.enrolment.claims import Admitted, Claim, Credential, KeyState, Known
from nightjar.coordinator.enrolment.register import Register
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.tables import claims, credentials
from nightjar.wire.identifiers import DeviceId

SECRET = "ab" * 32
ENDS_S = 100.0
PEOPLE = {"card": "a" * 64, "thief": "b" * 64}
"""The key of each that has the claim's text."""


class World(NamedTuple):
    """What is stored, and what each has.

    Attributes:
        claim: None once it was revoked.
        keys: the register's credentials.
        certified: who holds a certificate.
        used: who was let in with it at least once.
        now_s: before or after the claim's end.
        turned_away: who was revoked or refused by an operator.
    """

    claim: Claim | None
    keys: tuple[Credential, ...] = ()
    certified: frozenset[str] = frozenset()
    used: frozenset[str] = frozenset()
    now_s: float = 1.0
    turned_away: frozenset[str] = frozenset()


class Enrolling:
    """The moves, on one database that is set to each world in turn."""

    def __init__(self, database: Database, *, uses: int, approval: bool, device: str) -> None:
        self._database, self.register = database, Register(database)
        self.claim = Claim(
            name="card", sha256=SECRET, device=device, uses=uses, uses_left=uses, approval=approval, created_s=0.0,
            expires_s=ENDS_S,
        )  # fmt: skip

    def start(self) -> World:
        """The claim is on the card, and copied."""
        return World(self.claim)

    def moves(self, world: World) -> Iterator[tuple[str, World]]:
        """All that somebody may do next."""
        for who in PEOPLE:
            yield f"{who} asks", self._ask(who, world, arrives=True)
            yield f"{who} asks, and the answer is lost", self._ask(who, world, arrives=False)
            if who in world.certified:
                yield f"{who} connects", self._connect(who, world)
        for key in world.keys:
            for approved in (True, False):
                if key.standing is KeyState.WAITING:
                    yield f"{approved=} {name_of(key)}", self._decide(key, world, approved=approved)
            if key.standing is not KeyState.REVOKED:
                yield f"revoke {key.device}", self._revoke(key.device, world)
        if world.claim is not None:
            yield "the claim is revoked", self._after(world, lambda: self.register.remove_claim("card", "anna", 1.0))
        yield "the claim ends", world._replace(now_s=ENDS_S + 1)

    def may_enter(self, who: str, world: World) -> bool:
        """Whether its certificate lets somebody in now; changes nothing that stays."""
        self._set(world)
        return self.register.seen(PEOPLE[who], world.now_s) is not None

    def answered(self, who: str, world: World) -> bool:
        """Whether somebody who asks gets a certificate, now or once a person approves; changes nothing that stays."""
        self._set(world)
        return isinstance(self._redeem(who, world), Admitted | Known)

    def _redeem(self, who: str, world: World) -> object:
        return self.register.redeem(SECRET, PEOPLE[who], "csr", "192.0.2.1", world.now_s)

    def _ask(self, who: str, world: World, *, arrives: bool) -> World:
        got = False

        def act() -> None:
            nonlocal got
            verdict = self._redeem(who, world)
            standing = verdict.standing if isinstance(verdict, Admitted) else None
            standing = verdict.credential.standing if isinstance(verdict, Known) else standing
            if standing in {KeyState.GRANTED, KeyState.ISSUED}:
                self.register.issue(PEOPLE[who], "certificate", PEOPLE[who], "authority", 1000.0)
                got = True

        after = self._after(world, act)
        return after._replace(certified=after.certified | {who}) if got and arrives else after

    def _connect(self, who: str, world: World) -> World:
        entered = False

        def act() -> None:
            nonlocal entered
            entered = self.register.seen(PEOPLE[who], world.now_s) is not None

        after = self._after(world, act)
        return after._replace(used=after.used | {who}) if entered else after

    def _decide(self, key: Credential, world: World, *, approved: bool) -> World:
        after = self._after(world, lambda: self.register.decide(key.key, "anna", world.now_s, approved=approved))
        return after if approved else after._replace(turned_away=after.turned_away | {name_of(key)})

    def _revoke(self, device: DeviceId, world: World) -> World:
        gone = {name_of(key) for key in world.keys if key.device == device}
        after = self._after(world, lambda: self.register.revoke(device, "anna", world.now_s))
        return after._replace(turned_away=after.turned_away | gone)

    def _after(self, world: World, act: Callable[[], object]) -> World:
        self._set(world)
        act()
        keys = sorted(self.register.credentials(), key=lambda key: key.key)
        held = self.register.claims()
        return world._replace(claim=held[0] if held else None, keys=tuple(map(_timeless, keys)))

    def _set(self, world: World) -> None:
        with self._database.connection() as tx:
            for table in (claims, credentials):
                tx.execute(sa.delete(table))
            if world.claim is not None:
                tx.execute(sa.insert(claims).values(structs.asdict(world.claim)))
            for key in world.keys:
                row: dict[str, Any] = structs.asdict(key)
                tx.execute(sa.insert(credentials).values(row | {"standing": key.standing.value}))


def name_of(key: Credential) -> str:
    """Whose key it is."""
    return next(who for who, own in PEOPLE.items() if own == key.key)


def rules(enrolling: Enrolling) -> dict[str, Callable[[World], bool]]:
    """What must hold in every world, in words."""

    def no_more_than_uses(world: World) -> bool:
        return len(world.keys) <= enrolling.claim.uses

    def one_device_of_a_name(world: World) -> bool:
        active = [key.device for key in world.keys if key.standing is KeyState.ACTIVE]
        return len(active) == len(set(active))

    def asks_again(world: World) -> bool:
        begun = {KeyState.WAITING, KeyState.GRANTED, KeyState.ISSUED}
        return world.claim is None or all(
            enrolling.answered(name_of(key), world) for key in world.keys if key.standing in begun
        )

    def away_stays_away(world: World) -> bool:
        return not any(
            enrolling.may_enter(who, world) or (world.claim is not None and enrolling.answered(who, world))
            for who in world.turned_away
        )

    return {
        "a claim lets in no more keys than it has uses": no_more_than_uses,
        "of one name, one key is in use": one_device_of_a_name,
        "whoever was let in and lost the answer gets it again, also after the claim's end": asks_again,
        "whoever was revoked or refused gets in no more, and nothing with the same key": away_stays_away,
    }


def _timeless(key: Credential) -> Credential:
    return structs.replace(key, requested_s=0.0, expires_s=1000.0 if key.expires_s else 0.0)
