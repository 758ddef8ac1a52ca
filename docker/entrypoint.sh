#!/bin/sh
# Start the service, or run any other command of hasse:
#   docker run --init ... hasse                serve the library at $HASSE_LIBRARY
#   docker run --init ... hasse status
# With HASSE_DEMO=1 the built-in collection is made first, unless an index is there already.
set -eu

if [ "${1:-serve}" = serve ] && [ "${HASSE_DEMO:-0}" = 1 ]; then
    hasse demo --no-serve --library "$HASSE_LIBRARY"
fi
# exec: hasse itself gets the signals of `docker stop`, once it listens for them; until then, and
# while the collection is made, they need the first process that --init brings.
exec hasse "$@"
