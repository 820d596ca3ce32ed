#!/usr/bin/env bash
# What scripts/desk_session.sh does inside, as the person: a session of labwc with IBus, and programs that are typed into.
set -u
cd "$HOME" || exit
export GSETTINGS_BACKEND=memory NO_AT_BRIDGE=1 GTK_A11Y=none GDK_BACKEND=wayland QT_QPA_PLATFORM=wayland
WLR_BACKENDS=headless WLR_RENDERER=pixman WLR_LIBINPUT_NO_DEVICES=1 labwc 2> labwc.log &
for _ in $(seq 100); do [ -S "$XDG_RUNTIME_DIR/wayland-0" ] && break; sleep 0.2; done
export WAYLAND_DISPLAY=wayland-0
ibus-daemon --panel disable --config disable --cache none --emoji-extension disable 2> ibus.log &
for _ in $(seq 100); do
    ibus engine nightjar > /dev/null 2>&1
    [ "$(ibus engine 2> /dev/null)" = nightjar ] && break
    sleep 0.3
done
for _ in $(seq 300); do nightjar-agent status 2> /dev/null | grep -q '^running *yes' && break; sleep 0.5; done

comes_to() {
    for _ in $(seq 50); do [ "$(cat text 2> /dev/null)" = "$1" ] && return; sleep 0.1; done
    return 1
}
try() {
    way=$1
    shift
    for program in gtk3 gtk4 qt6; do
        rm -f text
        env "$@" python3 "/desk/$program.py" text > "$program.log" 2>&1 &
        shown=$!
        for _ in $(seq 30); do  # until the field takes keys
            wtype h
            sleep 1
            [ -n "$(cat text 2> /dev/null)" ] && break
        done
        result="not offered"
        for _ in 1 2 3; do  # on a busy machine words may come later than Tab
            before=$(cat text)
            wtype -d 60 " how are y"
            comes_to "$before how are y" || { result="other keys came"; break; }
            sleep 1
            wtype -k Tab
            comes_to "$before how are you" && { result="chosen by Tab"; break; }
        done
        echo "labwc, $program, $way: $result, the text is '$(cat text 2> /dev/null)'"
        kill "$shown"
        wait "$shown" 2> /dev/null
    done
}
try "IBus's module" GTK_IM_MODULE=ibus QT_IM_MODULE=ibus
if [ -x /usr/libexec/ibus-wayland ]; then
    /usr/libexec/ibus-wayland > ibus-wayland.log 2>&1 &
    sleep 2
    try "ibus-wayland" --unset=GTK_IM_MODULE --unset=QT_IM_MODULE
fi
jobs -p | xargs --no-run-if-empty kill
wait 2> /dev/null
