#!/bin/bash
# Health check of a running service: ends with status 0 when /readyz answers 200, and with 1 and one
# line otherwise. In bash alone, since starting Python every ten seconds costs forty times as much.
host=${HASSE_HOST:-127.0.0.1} port=${HASSE_PORT:-8000}
# A service that listens everywhere is reached on the loopback address.
case $host in
    0.0.0.0) host=127.0.0.1 ;;
    ::) host=::1 ;;
esac
named=$host
[[ $host == *:* ]] && named="[$host]"

fail() {
    echo "error: $1" >&2
    exit 1
}

trap '' PIPE  # what listens there may hang up while it is asked
{ exec 3<>"/dev/tcp/$host/$port"; } 2>/dev/null || fail "no answer from $named:$port"
printf 'GET /readyz HTTP/1.0\r\nHost: %s:%s\r\n\r\n' "$named" "$port" >&3 2>/dev/null
read -r -t "${1:-5}" -u 3 version status _ || fail "no answer from $named:$port"
[[ $version == HTTP/* ]] || fail "no answer from $named:$port: what listens there speaks no HTTP"
[[ $status == 200 ]] || fail "$named:$port answers $status: not ready"
