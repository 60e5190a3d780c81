#!/bin/sh
# What a change does to programs, as Markdown: `distir diff` of each .dir file that differs from a commit.
#
#   sh compare.sh BASE [HARDWARE]
#
# DISTIR names the command, if it is not on the path. Programs that are new, gone, or do not simulate are named only.
set -eu
base=$1
hardware=${2:-}
distir=${DISTIR:-distir}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

echo "### What changes in distributed programs"
git diff --name-only -z --no-renames --diff-filter=M "$base" -- '*.dir' > "$scratch/changed"
git diff --name-only --no-renames --diff-filter=A "$base" -- '*.dir' > "$scratch/new"
git diff --name-only --no-renames --diff-filter=D "$base" -- '*.dir' > "$scratch/gone"
if ! [ -s "$scratch/changed" ] && ! [ -s "$scratch/new" ] && ! [ -s "$scratch/gone" ]; then
  echo
  echo "Nothing."
fi

# One file at a time, whatever its name holds.
compare() {
  folder=$(dirname "./$3")
  before=$folder/.before.$$.dir # beside the program, where its settings and tensors are
  git show "$1:$3" > "$before"
  number=$(wc -l < "$scratch/number" 2> /dev/null || echo 0)
  echo >> "$scratch/number"
  printf '\n#### Program %s\n\n' "$((number + 1))"
  if "$distir" diff ${2:+"--hardware=$2"} --markdown -- "$before" "./$3" > "$scratch/said" 2> "$scratch/error"; then
    cat "$scratch/said"
  else
    echo "It cannot be compared:"
    echo
    sed 's/^/    /' "$scratch/error"
  fi
  rm -f "$before"
}
