"""A text field of GTK 4 and a password field: gtk4.py TEXT_FILE [password]."""

import sys
from pathlib import Path

import gi

gi.require_version("Gtk", "4.0")
from gi.repository import Gtk  # noqa: E402


def main() -> None:
    out = Path(sys.argv[1])

    def changed(buffer: Gtk.TextBuffer) -> None:
        out.with_suffix(".new").write_text(buffer.get_text(*buffer.get_bounds(), False))
        out.with_suffix(".new").replace(out)

    def started(application: Gtk.Application) -> None:
        window = Gtk.ApplicationWindow(application=application, title="nightjar-test")
        box, view, secret = Gtk.Box(orientation=Gtk.Orientation.VERTICAL), Gtk.TextView(), Gtk.PasswordEntry()
        view.get_buffer().connect("changed", changed)
        secret.connect("changed", lambda entry: out.write_text(str(len(entry.get_text()))))
        box.append(view)
        box.append(secret)
        window.set_child(box)
        window.set_default_size(800, 600)
        window.present()
        (secret if "password" in sys.argv else view).grab_focus()

    application = Gtk.Application(application_id="org.example.nightjar")
    application.connect("activate", started)
    application.run()


main()
