"""The panel of the keyboard's page says from which programs messages were kept."""

import json

from nightjar.edge_agent.core.stored import Caps
from nightjar.edge_agent.keyboard.key import headers, kept_key
from nightjar.edge_agent.suggester.control import Begin
from nightjar.edge_agent.suggester.service import KeyboardService


def test_the_panel_shows_by_program_what_was_kept_until_all_is_forgotten(tmp_path):
    service = KeyboardService(Begin("desk", False, tmp_path, Caps(10, 10_000, 1e6)), lambda: None)
    requests = service.requests()
    for text in ("see you at the mill", "bring the lamp", "me@example.com"):
        requests.answer(json.dumps({"do": "learn", "text": text, "program": "gedit"}).encode())
    page = service.page().test_client()
    shown = headers(kept_key(tmp_path))
    assert page.get("/api/about", headers=shown).json["by_program"] == {"gedit": 2}
    service.forget()
    assert page.get("/api/about", headers=shown).json["by_program"] == {}
    service.database.close()
