"""A text field of GTK 3 and a password field: gtk3.py TEXT_FILE [password]."""

import sys
from pathlib import Path

import gi

gi.require_version("Gtk", "3.0")
from gi.repository import Gtk  # noqa: E402


def main() -> None:
    out = Path(sys.argv[1])

    def changed(buffer: Gtk.TextBuffer) -> None:
        out.with_suffix(".new").write_text(buffer.get_text(*buffer.get_bounds(), False))
        out.with_suffix(".new").replace(out)

    window, box, view, secret = Gtk.Window(title="nightjar-test"), Gtk.VBox(), Gtk.TextView(), Gtk.Entry()
    secret.set_visibility(False)
    secret.set_input_purpose(Gtk.InputPurpose.PASSWORD)
    secret.connect("changed", lambda entry: out.write_text(str(len(entry.get_text()))))
    view.get_buffer().connect("changed", changed)
    for widget in (view, secret):
        box.pack_start(widget, True, True, 0)
    window.add(box)
    window.set_default_size(800, 600)
    window.show_all()
    (secret if "password" in sys.argv else view).grab_focus()
    Gtk.main()


main()
