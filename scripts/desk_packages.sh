#!/usr/bin/env bash
# Installs the Debian packages of a desk with apt in a root file system of their own, types as a person, removes them,
# and lists what is left: scripts/desk_packages.sh bookworm|trixie FOLDER-OF-PACKAGES
set -euo pipefail
cd "$(dirname "$0")/.."
suite=$1 packages=$2
folder=build/desk-packages
mkdir -p "$folder"

cat > "$folder/person.py" <<'PERSON'
import json, os, socket, time
path = os.path.expanduser("~/.local/share/nightjar/suggester/socket")
def ask(**request):
    for _ in range(600):
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(path)
                connection.sendall(json.dumps(request).encode() + b"\n")
                answer = json.loads(connection.makefile("rb").readline())
                if answer.get("version", 0) is not None:
                    return answer
        except OSError:
            pass
        time.sleep(0.5)
    raise SystemExit("the suggester does not answer")
print("foresees:", ask(do="suggest", text="how are ")["words"])
for _ in range(2):
    print("learned:", ask(do="learn", text="see you at the zyzzyvarium", program="editor")["kept"])
print("completes:", ask(do="complete", partial="zyzzyv")["words"][:1])
PERSON
cat > "$folder/inside.sh" <<'INSIDE'
set -eu
list() { find / -xdev -not -path '/proc/*' -not -path '/sys/*' -not -path '/dev/*' -not -path '/tmp/*' | sort; }
useradd --create-home ada
list > /tmp/before
apt-get install --quiet --quiet --yes --no-install-recommends /packages/*.deb > /tmp/apt.log 2>&1 || { cat /tmp/apt.log; exit 1; }
list > /tmp/installed
setpriv --reuid ada --regid ada --clear-groups env HOME=/home/ada nightjar-agent run 2> /tmp/agent.log &
setpriv --reuid ada --regid ada --clear-groups env HOME=/home/ada python3 /person.py || { cat /tmp/agent.log; exit 1; }
env HOME=/home/ada setpriv --reuid ada --regid ada --clear-groups nightjar-agent status | grep -E '^(running|connected|messages)'
kill %1 && wait %1
/usr/libexec/nightjar-ibus --version
apt-get remove --quiet --quiet --yes nightjar-agent nightjar-ibus 2>&1 | grep nightjar-agent: || true
list > /tmp/after
echo "left behind, outside of apt's and dpkg's own lists:"
comm -13 /tmp/before /tmp/after | grep -vE '^/var/(lib/(dpkg|apt)|cache|log)/|^/etc/ld.so.cache' || echo "nothing"
INSIDE
debs=("$packages"/nightjar-agent_*.deb "$packages"/nightjar-ibus_*.deb)
mmdebstrap --quiet --variant=apt --format=null --aptopt='APT::Install-Recommends "false"' \
    --include=ca-certificates,gir1.2-ibus-1.0,ibus,libstdc++6,passwd,python3,python3-gi \
    --customize-hook="mkdir \"\$1/packages\"" --customize-hook="copy-in ${debs[*]} /packages" \
    --customize-hook="copy-in $folder/inside.sh $folder/person.py /" \
    --customize-hook="env --ignore-environment HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        DEBIAN_FRONTEND=noninteractive chroot \"\$1\" bash /inside.sh" "$suite"
