# Shared by the parts of ./dev.

say() { echo "dev: $*"; }
die() {
  echo "dev: $*" >&2
  exit 1
}

# The entries of a list file: no comments, no blank lines.
entries() { sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$1"; }

# The absolute links of a system in a folder would lead to this system's files.
stay_inside() {
  local link
  find "$1" -type l -lname '/*' | while read -r link; do
    ln -sfn "$(realpath -ms --relative-to="$(dirname "$link")" "$1$(readlink "$link")")" "$link"
  done
}

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
