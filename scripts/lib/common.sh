# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Paths, messages and locks for every script. Set "here" to the path of scripts/ before
# you source it.

set -euo pipefail

OPENREG_SRC=$(cd "$here/.." && pwd)
: "${OPENREG_CACHE:=${XDG_CACHE_HOME:-$HOME/.cache}/openreg}"
[[ $OPENREG_CACHE == /* ]] || OPENREG_CACHE=$PWD/$OPENREG_CACHE
export OPENREG_SRC OPENREG_CACHE
if [ -e "$OPENREG_CACHE" ] && [ ! -d "$OPENREG_CACHE" ]; then
	echo "${0##*/}: error: $OPENREG_CACHE is not a directory" >&2
	echo "  set OPENREG_CACHE to a directory, or to a path that does not exist yet" >&2
	exit 1
fi
if [ -e "$OPENREG_CACHE" ] && { [ ! -r "$OPENREG_CACHE" ] || [ ! -x "$OPENREG_CACHE" ]; }; then
	echo "${0##*/}: error: $OPENREG_CACHE cannot be read by $(id -un)" >&2
	echo "  set OPENREG_CACHE to a directory that you own" >&2
	exit 1
fi

say()
{
	printf '%s: %s\n' "${0##*/}" "$*" >&2
}

# die MESSAGE [WHAT TO DO NEXT...]
die()
{
	say "error: $1"
	shift
	[ $# -eq 0 ] || printf '  %s\n' "$@" >&2
	exit 1
}

# Prints the usage of the running script: its comment from "# usage" to the empty line.
print_usage()
{
	sed -n '/^# usage/,/^$/s/^# //p' "$0"
}

have()
{
	command -v "$1" >/dev/null 2>&1
}

# need_root TASK [ARGUMENT...]: restarts the script with the arguments as root, through
# sudo, with the user's cache and settings. Scripts that mount or install need root.
need_root()
{
	local name kept=()
	[ "$(id -u)" -eq 0 ] && return 0
	have sudo || die "$1 needs root, and there is no sudo" \
		"run it as root (with OPENREG_CACHE=$OPENREG_CACHE to keep this cache)"
	shift
	# Make the directory above the cache now, so that it belongs to the user, not to root.
	mkdir -p "${OPENREG_CACHE%/*}"
	for name in $(compgen -e OPENREG_); do
		kept+=("$name=${!name}")
	done
	exec sudo env "${kept[@]}" OPENREG_CACHE="$OPENREG_CACHE" CI="${CI:-}" "$0" "$@"
}

# Marks a cache that is still empty as openreg's: scripts/clean deletes only such a cache.
claim_cache()
{
	[ -z "$(ls -A "$OPENREG_CACHE" 2>/dev/null)" ] || return 0
	mkdir -p "$OPENREG_CACHE"
	: > "$OPENREG_CACHE/.openreg"
}

# with_lock NAME COMMAND...: runs COMMAND under the cache's lock NAME, and prints a
# message if it must wait
with_lock()
{
	local name=$1 fd
	shift
	claim_cache
	mkdir -p "$OPENREG_CACHE/lock"
	exec {fd}>"$OPENREG_CACHE/lock/$name"
	if ! flock --nonblock "$fd"; then
		say "another run is building $name, waiting for it"
		flock "$fd"
	fi
	"$@"
	exec {fd}>&-
}

# remove_tree DIRECTORY: nothing may be mounted below DIRECTORY. If something still is,
# --one-file-system keeps rm out of the mount.
remove_tree()
{
	[ ! -e "$1" ] || rm -rf --one-file-system -- "$1"
}

# need_space DIRECTORY GIGABYTES: an error if the disk has less space free
need_space()
{
	local free
	mkdir -p "$1"
	free=$(df --output=avail -BG "$1" | tail -1 | tr -dc 0-9)
	[ "$free" -ge "$2" ] || die "$1 has $free GB free, $2 GB are needed" \
		"make room there, or set OPENREG_CACHE to a directory on another disk"
}

# record NAME COMMAND FIGURES: if OPENREG_RESULTS is set, writes the FIGURES of this run,
# such as "3 passed, 0 failed", into docs/results/reliability.json and its page
record()
{
	local figures
	[ -n "${OPENREG_RESULTS:-}" ] && [ -n "$3" ] || return 0
	figures=$(sed -E 's/([0-9.]+) ([a-z_]+)/"\2": \1/g' <<< "$3")
	# shellcheck disable=SC2016 # the root's shell expands it
	printf '{"where": "%s", %s}\n' "$1" "$figures" | with_lock results "$here/in-root" sh -euc '
		python3 scripts/lib/results.py docs/results/reliability.json "$1"
		python3 tests/docs/make-reliability.py' sh "$2"
}
