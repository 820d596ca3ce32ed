"""Programs by what is typed in them, as toolkits name them (:func:`nightjar.edge_agent.desktop.fields.program_of`)."""

from __future__ import annotations

TERMINALS = frozenset(
    [
        "alacritty",
        "cool-retro-term",
        "deepin-terminal",
        "foot",
        "ghostty",
        "gnome-terminal",
        "gnome-terminal-server",
        "guake",
        "kgx",
        "kitty",
        "konsole",
        "lxterminal",
        "mate-terminal",
        "ptyxis",
        "qterminal",
        "rxvt",
        "sakura",
        "st",
        "terminator",
        "terminology",
        "tilda",
        "tilix",
        "urxvt",
        "vte-2.91",
        "wezterm",
        "wezterm-gui",
        "xfce4-terminal",
        "xterm",
        "yakuake",
    ]
)
"""Terminals: a prompt may ask for a password, and nobody can tell."""

SECRET_PROGRAMS = frozenset(
    [
        "1password",
        "bitwarden",
        "enpass",
        "gcr-prompter",
        "gnome-keyring-prompter",
        "gnome-secrets",
        "gpa",
        "keepass",
        "keepass2",
        "keepassxc",
        "kgpg",
        "kleopatra",
        "kwalletd5",
        "kwalletd6",
        "kwalletmanager",
        "kwalletmanager5",
        "lxpolkit",
        "lxqt-policykit-agent",
        "mate-polkit",
        "passwordsafe",
        "pinentry",
        "pinentry-gnome3",
        "pinentry-gtk-2",
        "pinentry-qt",
        "pinentry-qt5",
        "polkit-gnome-authentication-agent-1",
        "polkit-mate-authentication-agent-1",
        "proton-pass",
        "qtpass",
        "seahorse",
        "secrets",
        "ssh-askpass",
        "swaylock",
        "xfce-polkit",
    ]
)
"""Programs that are there for secrets."""

NEVER_LEARNED = frozenset(
    [
        "gnome-connections",
        "krdc",
        "onboard",
        "org.gnome.connections",
        "remmina",
        "tor-browser",
        "torbrowser",
        "vinagre",
        "virt-manager",
        "virt-viewer",
        "virtualbox",
        "virtualboxvm",
        "vncviewer",
        "xfreerdp",
    ]
)
"""Programs that show another computer's screen, or that promise to keep nothing."""

WITHOUT_ECHO = frozenset(
    [
        "brave",
        "brave-browser",
        "chromium",
        "chromium-browser",
        "google-chrome",
        "google-chrome-stable",
        "microsoft-edge",
        "opera",
        "vivaldi",
    ]
)
"""Browsers that show an engine no text under X; their password fields never reach it."""
