#!/bin/sh
# Posts an event of a run, which comes on the input as JSON, to the address in a file, as chat programs take it: the
# object has a field "text". The file is `url = "https://..."`: an address that holds a secret stays out of `ps`.
#
#     rekindle local ... --on-event '/path/to/web-hook.sh ~/.config/rekindle-hook'
set -eu
exec curl --silent --show-error --fail --max-time 20 --retry 2 --output /dev/null --config "$1" \
  --header 'Content-Type: application/json' --data-binary @-
