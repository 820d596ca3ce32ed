"""IBus's panel, which draws the candidates: it touches the one whose place stands on a line of the input."""

import gi

gi.require_version("IBus", "1.0")
from gi.repository import GLib, IBus  # noqa: E402


def main() -> None:
    IBus.init()
    bus = IBus.Bus()
    panel = IBus.PanelService(connection=bus.get_connection(), object_path=IBus.PATH_PANEL)
    bus.request_name(IBus.SERVICE_PANEL, 0)

    def touched(channel: GLib.IOChannel, _condition: GLib.IOCondition) -> bool:
        line = channel.readline()
        if line:
            panel.candidate_clicked(int(line), 1, 0)
        return bool(line)

    GLib.io_add_watch(GLib.IOChannel(0), GLib.PRIORITY_DEFAULT, GLib.IOCondition.IN | GLib.IOCondition.HUP, touched)
    print("ready", flush=True)
    GLib.MainLoop().run()


main()
