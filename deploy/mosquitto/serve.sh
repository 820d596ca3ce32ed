#!/bin/sh
# Runs mosquitto, and has it read the coordinator's files again within a second of a change: certificates, revocations,
# access list. So the coordinator need not signal a process of another container.
set -eu
tls=/mosquitto/tls
until [ -s "$tls/access" ]; do sleep 1; done  # the last file that the coordinator writes

umask 077
printf '@coordinator:%s\n' "${BROKER_PASSWORD:?is not set}" > /tmp/passwords
mosquitto_passwd -U /tmp/passwords
unset BROKER_PASSWORD

sums() { cksum "$tls/authorities.pem" "$tls/broker.pem" "$tls/revoked.pem" "$tls/access"; }
known=$(sums)
mosquitto -c /mosquitto/config/mosquitto.conf &
broker=$!
trap 'kill "$broker"' TERM INT
while kill -0 "$broker" 2>/dev/null; do
    sleep 0.5 &
    wait $! || true  # a signal ends it early
    found=$(sums)
    if [ "$found" != "$known" ]; then
        known=$found
        kill -HUP "$broker" || true
    fi
done
wait "$broker"
