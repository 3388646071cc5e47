# Shared by the parts of ./dev.

say() { echo "dev: $*"; }
die() {
  echo "dev: $*" >&2
  exit 1
}

# The entries of a list file: no comments, no blank lines.
entries() { sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$1"; }

# Runs a command silently. If the command fails, shows the end of its output and stops with the reason.
#   quietly WHY_LINE COMMAND...
quietly() {
  local why=$1 output
  shift
  output=$("$@" 2>&1) || {
    tail -n 15 <<<"$output" >&2
    die "$why"
  }
}
