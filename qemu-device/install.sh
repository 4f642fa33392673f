#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Puts the card into a QEMU source tree (10.0 or later): copies the sources to
# hw/misc/openreg and the test (if it is there) to tests/qtest, and adds one line to each
# build file that needs it. A second run changes only files that differ. With --inject the device can misbehave, for tests of drivers ("A hostile
# card" in docs/specs/openreg.rst).
# usage: install.sh [--inject] QEMU_SRC

set -eu

die()
{
	echo "install.sh: error: $1" >&2
	echo "  $2" >&2
	exit 1
}

hostile=openreg-inject-off.c
if [ "${1:-}" = --inject ]; then
	hostile="openreg-inject.c openreg-inject-ops.c"
	shift
fi
[ $# -eq 1 ] || die "one argument is wanted" "usage: install.sh [--inject] QEMU_SRC"
qemu=$1
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/.." && pwd)
device=$qemu/hw/misc/openreg

[ -e "$qemu/hw/misc/meson.build" ] && [ -e "$qemu/VERSION" ] ||
	die "$qemu is not a QEMU source tree" \
	    "unpack QEMU 10.0 or later there (scripts/build qemu does all of it)"
major=$(cut -d. -f1 "$qemu/VERSION")
[ "$major" -ge 10 ] ||
	die "QEMU $(cat "$qemu/VERSION") is too old" "take 10.0 or later"

# copy FILE... DIRECTORY, only what differs
copy()
{
	for last; do :; done
	mkdir -p "$last"
	for file; do
		[ "$file" != "$last" ] || break
		cmp -s "$file" "$last/${file##*/}" || cp "$file" "$last/"
	done
}

# write FILE from standard input, only if it differs
write()
{
	cat > "$1.new"
	if cmp -s "$1.new" "$1"; then
		rm "$1.new"
	else
		mv "$1.new" "$1"
	fi
}

# prune DIRECTORY ORIGIN...: files that are no longer in the checkout
prune()
{
	directory=$1
	shift
	for file in "$directory"/*.[ch]; do
		[ -e "$file" ] || continue
		for origin; do
			[ ! -e "$origin/${file##*/}" ] || continue 2
		done
		rm "$file"
	done
}

# hook FILE AFTER LINE: adds LINE after the line AFTER, or at the end of the file if AFTER
# is empty
hook()
{
	grep -qxF -- "$3" "$1" && return 0
	if [ -z "$2" ]; then
		printf '%s\n' "$3" >> "$1"
		return 0
	fi
	grep -qxF -- "$2" "$1" ||
		die "$1 has no line \"$2\"" \
		    "this QEMU is laid out differently: add the line \"$3\" there by hand"
	awk -v after="$2" -v line="$3" '
		{ print }
		$0 == after && !done { print line; done = 1 }' "$1" | write "$1"
}

copy "$here"/openreg-*.[ch] "$here/trace.h" "$here/trace-events" \
	"$here/Kconfig" "$here/meson.build" "$device"
# card.h finds the headers of uapi/ beside it, so QEMU's own files need no further
# option and are not compiled again.
copy "$here/card/card.h" "$top/uapi/openreg_isa.h" "$top/uapi/openreg_regs.h" \
	"$device/card"
for room in "$here"/card/*/; do
	copy "$room"*.[ch] "$device/card/$(basename "$room")"
done
prune "$device" "$here"
prune "$device/card" "$here/card" "$top/uapi"
for room in "$device"/card/*/; do
	prune "${room%/}" "$here/card/$(basename "$room")"
done
(cd "$device" && ls card/*/*.c) | write "$device/card/sources"
# shellcheck disable=SC2086 # a list of files
(
	cd "$device"
	for file in openreg-*.c; do
		[ "${file#openreg-inject}" != "$file" ] || echo "$file"
	done
	printf '%s\n' $hostile
) | write "$device/sources"

hook "$qemu/hw/misc/meson.build" "" "subdir('openreg')"
hook "$qemu/hw/misc/Kconfig" "" "source openreg/Kconfig"
hook "$qemu/meson.build" "    'hw/misc/macio'," "    'hw/misc/openreg',"

# The test, if it is there: the device builds without it.
[ -e "$top/tests/qtest/openreg-test.c" ] || exit 0
tests=$qemu/tests/qtest
copy "$top/tests/qtest/openreg-test.c" "$tests"
copy "$top"/tests/qtest/openreg/*.[ch] "$tests/openreg"
copy "$top/uapi/openreg_isa.h" "$top/uapi/openreg_regs.h" \
	"$top/libopenreg/include/openreg_encode.h" "$top/libopenreg/sim/client.h" \
	"$tests/openreg/uapi"
prune "$tests/openreg" "$top/tests/qtest/openreg"
(cd "$tests" && ls openreg/*.c) | write "$tests/openreg/sources"
hook "$tests/meson.build" "qtests_i386 = \\" "  ['openreg-test'] + \\"
hook "$tests/meson.build" "qtests = {" \
	"  'openreg-test': files(fs.read('openreg/sources').strip().split()),"
