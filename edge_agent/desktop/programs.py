"""Programs by what is typed in them, as toolkits name them (:func:`nightjar.edge_agent.desktop.fields.program_of`)."""

from __future__ import annotations

TERMINALS = frozenset(
    [
        "alacritty",
        "blackbox",
        "cool-retro-term",
        "deepin-terminal",
        "foot",
        "ghostty",
        "gnome-terminal",
        "gnome-terminal-server",
        "guake",
        "io.elementary.terminal",
        "kgx",
        "kitty",
        "konsole",
        "lxterminal",
        "mate-terminal",
        "org.gnome.console",
        "org.gnome.terminal",
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

PROMPTS = frozenset(
    [
        "gcr-prompter",
        "gnome-keyring-prompter",
        "gnome-ssh-askpass",
        "gnome-ssh-askpass3",
        "gtklock",
        "kdesu",
        "kscreenlocker_greet",
        "ksshaskpass",
        "kwalletd5",
        "kwalletd6",
        "lxpolkit",
        "lxqt-openssh-askpass",
        "lxqt-policykit-agent",
        "lxqt-sudo",
        "mate-polkit",
        "pinentry",
        "pinentry-fltk",
        "pinentry-gnome3",
        "pinentry-gtk-2",
        "pinentry-kwallet",
        "pinentry-qt",
        "pinentry-qt5",
        "pinentry-qt6",
        "polkit-gnome-authentication-agent-1",
        "polkit-kde-authentication-agent-1",
        "polkit-mate-authentication-agent-1",
        "ssh-askpass",
        "swaylock",
        "x11-ssh-askpass",
        "xfce-polkit",
    ]
)
"""Programs that ask for a password and nothing else, and do not show it; some of them run all the time."""

SECRET_PROGRAMS = PROMPTS | frozenset(
    [
        "1password",
        "bitwarden",
        "com.bitwarden.desktop",
        "enpass",
        "gnome-secrets",
        "gpa",
        "keepass",
        "keepass2",
        "keepassxc",
        "kgpg",
        "kleopatra",
        "kwalletmanager",
        "kwalletmanager5",
        "onepassword",
        "org.gnome.seahorse.application",
        "passwordsafe",
        "proton-pass",
        "qtpass",
        "seahorse",
        "secrets",
    ]
)
"""Programs that are there for secrets."""

NEVER_LEARNED = frozenset(
    [
        "firefox.real",
        "gnome-connections",
        "krdc",
        "mullvad browser",
        "mullvad-browser",
        "mullvadbrowser.real",
        "onboard",
        "org.gnome.connections",
        "remmina",
        "tor browser",
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
