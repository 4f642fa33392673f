# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# What every script here starts with: the paths, plain messages, locks.
# Source it with "here" set to the directory of scripts/.

set -euo pipefail

OPENREG_SRC=$(cd "$here/.." && pwd)
: "${OPENREG_CACHE:=${XDG_CACHE_HOME:-$HOME/.cache}/openreg}"
[[ $OPENREG_CACHE == /* ]] || OPENREG_CACHE=$PWD/$OPENREG_CACHE
export OPENREG_SRC OPENREG_CACHE
if [ -e "$OPENREG_CACHE" ] && [ ! -d "$OPENREG_CACHE" ]; then
	echo "${0##*/}: error: $OPENREG_CACHE is not a directory" >&2
	echo "  set OPENREG_CACHE to one, or to what is yet to be made" >&2
	exit 1
fi
if [ -e "$OPENREG_CACHE" ] && { [ ! -r "$OPENREG_CACHE" ] || [ ! -x "$OPENREG_CACHE" ]; }; then
	echo "${0##*/}: error: $OPENREG_CACHE cannot be read by $(id -un)" >&2
	echo "  set OPENREG_CACHE to a directory of your own" >&2
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

# What the script that runs says of itself behind "# usage", up to an empty line.
tell_usage()
{
	sed -n '/^# usage/,/^$/s/^# //p' "$0"
}

have()
{
	command -v "$1" >/dev/null 2>&1
}

# The scripts that change mounts or install packages need root. Started by a
# user they start again through sudo, with the user's cache and settings.
need_root()
{
	local name kept=()
	[ "$(id -u)" -eq 0 ] && return 0
	have sudo || die "$1 needs root, and there is no sudo" \
		"run it as root (with OPENREG_CACHE=$OPENREG_CACHE to keep this cache)"
	shift
	# What holds the cache, such as ~/.cache, is the user's and stays so.
	mkdir -p "${OPENREG_CACHE%/*}"
	for name in $(compgen -e OPENREG_); do
		kept+=("$name=${!name}")
	done
	exec sudo env "${kept[@]}" OPENREG_CACHE="$OPENREG_CACHE" CI="${CI:-}" "$0" "$@"
}

# What is empty when the first build comes is openreg's from then on, all of it.
claim_cache()
{
	[ -z "$(ls -A "$OPENREG_CACHE" 2>/dev/null)" ] || return 0
	mkdir -p "$OPENREG_CACHE"
	: > "$OPENREG_CACHE/.openreg"
}

# with_lock NAME COMMAND...: one at a time per cache; waits, and says so.
with_lock()
{
	local name=$1 fd
	shift
	claim_cache
	mkdir -p "$OPENREG_CACHE/lock"
	exec {fd}>"$OPENREG_CACHE/lock/$name"
	if ! flock --nonblock "$fd"; then
		say "$name is being built by another run, waiting for it"
		flock "$fd"
	fi
	"$@"
	exec {fd}>&-
}

# Nothing below a directory that we delete may still be mounted; --one-file-system
# is the second line of defence.
remove_tree()
{
	[ ! -e "$1" ] || rm -rf --one-file-system -- "$1"
}

need_space()
{
	local free
	mkdir -p "$1"
	free=$(df --output=avail -BG "$1" | tail -1 | tr -dc 0-9)
	[ "$free" -ge "$2" ] || die "$1 has $free GB free, $2 GB are needed" \
		"make room there, or set OPENREG_CACHE to a directory on another disk"
}
