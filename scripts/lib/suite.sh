# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# For recipes: unpacks packages of another suite than the root's, without installing
# them. The mirror, the proxy and the suite come from the root's apt settings.

# Each recipe has its own lists and archives, since two may fetch at the same time.
SUITE_DIR=$(mktemp -d)
SUITE_APT=(-qq -o Dir::Etc::SourceParts=- -o Dir::Etc::SourceList="$SUITE_DIR/sources.list"
	-o Dir::State="$SUITE_DIR" -o Dir::State::status="$SUITE_DIR/status"
	-o Dir::Cache="$SUITE_DIR" -o APT::Sandbox::User=root -o Acquire::Languages=none)

suite_begin()
{
	mkdir -p "$SUITE_DIR/lists/partial" "$SUITE_DIR/archives/partial"
	: > "$SUITE_DIR/status"
	sed 's/^deb-src/deb/' /etc/apt/sources.list.d/source.list > "$SUITE_DIR/sources.list"
	apt-get "${SUITE_APT[@]}" update
}

# suite_depends PACKAGE EXPRESSION: prints the dependencies of PACKAGE with a name that
# begins with EXPRESSION
suite_depends()
{
	apt-cache "${SUITE_APT[@]}" show --no-all-versions "$1" |
		sed -n 's/^Depends: *//p' | tr ',|' '\n\n' | awk '{ print $1 }' |
		grep -E "^($2)" | sort -u
}

suite_unpack()
{
	local out=$1 deb
	shift
	(cd "$SUITE_DIR" && apt-get "${SUITE_APT[@]}" download "$@")
	for deb in "$SUITE_DIR"/*.deb; do
		dpkg-deb -x "$deb" "$out"
		rm "$deb"
	done
}
