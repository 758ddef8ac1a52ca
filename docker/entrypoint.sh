#!/bin/sh
# Start the service, or run any other command of hasse:
#   docker run ... hasse                       serve the index at $HASSE_INDEX
#   docker run ... hasse index info /data/index
# With HASSE_DEMO=1 and no index there yet, the built-in collection is made first.
set -eu

if [ "${1:-serve}" = serve ] && [ "${HASSE_DEMO:-0}" = 1 ] && [ ! -e "$HASSE_INDEX" ]; then
    hasse demo --no-serve --pictures "${HASSE_INDEX%/*}/scenes" --index "$HASSE_INDEX"
fi
# exec: hasse itself gets the signals of `docker stop`.
exec hasse "$@"
