"""The keyboard of this device: model, store and typing, and the page and the requests that use them."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict

from flask import Flask

from nightjar.edge_agent.core import lifecycle
from nightjar.edge_agent.core.own_history import Blended
from nightjar.edge_agent.keyboard.app import AgentInfo, create_app
from nightjar.edge_agent.keyboard.comparison import Comparison
from nightjar.edge_agent.keyboard.key import kept_key
from nightjar.edge_agent.keyboard.sending import Sending
from nightjar.edge_agent.keyboard.suggestions import Suggester
from nightjar.edge_agent.model import Model
from nightjar.edge_agent.shell.clock import SystemClock
from nightjar.edge_agent.shell.database import Database
from nightjar.edge_agent.shell.folder import ARTIFACTS, DATABASE, TYPED
from nightjar.edge_agent.shell.held_models import FIRST, announced, named_by
from nightjar.edge_agent.shell.keyboard_model import compare_versions, load_predictor, read_lexicon_of
from nightjar.edge_agent.shell.memory import return_free_memory
from nightjar.edge_agent.shell.probes.idle import TypingActivity
from nightjar.edge_agent.suggester.control import Begin
from nightjar.edge_agent.suggester.requests import Requests


class KeyboardService:
    """The keyboard of a device.

    ``ask_to_wipe`` asks the agent to delete everything, and returns when it is done.
    """

    def __init__(self, settings: Begin, ask_to_wipe: Callable[[], None]) -> None:
        self._settings, self._ask_to_wipe = settings, ask_to_wipe
        self._artifacts = settings.data_dir / ARTIFACTS
        self._typing = TypingActivity(settings.data_dir / TYPED)
        self._model: Model | None = None
        self.database = Database(
            settings.data_dir / DATABASE, settings.caps, SystemClock(settings.data_dir), tidy=False
        )
        self._suggester = Suggester(own=self.database.own_words())
        self._by_program: Counter[str] = Counter()

    def use(self, model: Model) -> None:
        """Suggest with this model from now on.

        Raises:
            NightjarError: its files cannot be used; the model before stays.
        """
        texts = self.database.texts()
        predictor = Blended(load_predictor(model, texts), texts)
        self._suggester.replace_predictor(predictor, functools.partial(read_lexicon_of, model), texts)
        self._model = model
        return_free_memory()

    def forget(self) -> None:
        """Forget what was typed and what was learned from it: the store is empty.

        Raises:
            NightjarError: the model's files cannot be used any more.
        """
        self._suggester.replace_own_words(())
        self._suggester.forget_phrases()
        self._by_program.clear()
        if self._model is not None:
            self.use(self._model)

    def page(self) -> Flask:
        """The keyboard's page."""
        key = kept_key(self._settings.data_dir)
        note = self._typing.note
        return create_app(self._suggester, self.database, self._about, self._ask_to_wipe, key, note, self._compared)

    def requests(self) -> Requests:
        """What answers desktop programs."""
        sending = Sending(self._suggester, self.database)
        return Requests(self._suggester, self.database, sending, self._typing.note, self._by_program)

    def _about(self) -> AgentInfo:
        state = self.database.load().lifecycle or lifecycle.STARTING
        return AgentInfo(
            device=self._settings.device,
            emulated=self._settings.emulated,
            state=lifecycle.name(state),
            reason=lifecycle.reason(state),
            by_program=dict(self._by_program),
            **asdict(self.database.tally()),
        )

    def _compared(self) -> Comparison:
        folder = self._artifacts
        return compare_versions(named_by(folder, FIRST), announced(folder), self.database.texts())
