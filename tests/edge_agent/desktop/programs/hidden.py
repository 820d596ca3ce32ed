"""A field that hides what is typed, and shows it from the sixth character on: hidden.py TEXT_FILE gtk4|qt5|qt6."""

import importlib
import sys
from pathlib import Path

SHOWN_FROM = 6


def tell(text: str) -> None:
    Path(sys.argv[1]).write_text(str(len(text)))


def in_gtk4() -> None:
    gi = importlib.import_module("gi")
    gi.require_version("Gtk", "4.0")
    gtk = importlib.import_module("gi.repository.Gtk")
    glib = importlib.import_module("gi.repository.GLib")

    def changed(entry: gtk.Entry) -> None:
        tell(entry.get_text())
        if len(entry.get_text()) == SHOWN_FROM:
            glib.idle_add(entry.set_visibility, True)

    def started(application: gtk.Application) -> None:
        window, entry = gtk.ApplicationWindow(application=application, title="nightjar-test"), gtk.Entry()
        entry.set_visibility(False)  # and no purpose, which would tell IBus
        entry.connect("changed", changed)
        window.set_child(entry)
        window.present()
        entry.grab_focus()

    application = gtk.Application(application_id="org.example.nightjar")
    application.connect("activate", started)
    application.run()


def in_qt(number: str) -> None:
    core = importlib.import_module(f"PyQt{number}.QtCore")
    widgets = importlib.import_module(f"PyQt{number}.QtWidgets")
    application = widgets.QApplication([])
    field = widgets.QLineEdit()
    mode = widgets.QLineEdit.EchoMode

    def changed(text: str) -> None:
        tell(text)
        if len(text) == SHOWN_FROM:
            core.QTimer.singleShot(0, lambda: field.setEchoMode(mode.Normal))

    field.setEchoMode(mode.Password)
    field.textChanged.connect(changed)
    field.setWindowTitle("nightjar-test")
    field.show()
    application.exec()


if sys.argv[2] == "gtk4":
    in_gtk4()
else:
    in_qt(sys.argv[2][-1])
