# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# The packages that the host itself needs, installed from its own apt.

# PACKAGE:PROGRAM shows that PACKAGE is installed. The keyring has no program, but a file.
HOST_PACKAGES="mmdebstrap:mmdebstrap util-linux:unshare debian-archive-keyring:"
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

host_missing()
{
	local entry program
	for entry in $HOST_PACKAGES; do
		program=${entry#*:}
		if [ -n "$program" ]; then
			have "$program" || echo "${entry%%:*}"
		else
			[ -e "$KEYRING" ] || echo "${entry%%:*}"
		fi
	done
}

host_apt_install()
{
	DEBIAN_FRONTEND=noninteractive apt-get -qq install -y "$@" </dev/null >/dev/null
}

# Installs missing packages. Refreshes the package lists only if the first try fails.
host_install()
{
	local missing
	missing=$(host_missing | tr '\n' ' ')
	[ -n "$missing" ] || return 0
	have apt-get || die "this host has no apt-get to install: $missing" \
		"use Debian 12 or 13 or Ubuntu 24.04, or install these by hand"
	say "installing on this host: $missing"
	# shellcheck disable=SC2086 # a list of words
	host_apt_install $missing 2>/dev/null ||
		{ apt-get -qq update >&2 && host_apt_install $missing; } ||
		die "cannot install $missing" \
		"is the network up? 'apt-get update' must work on this host first" \
		"on Ubuntu, mmdebstrap is in the universe component"
}

# Prints the host's apt settings for its mirrors (proxies, timeouts, the permitted age of
# a Release file), one --aptopt argument a line.
host_apt_settings()
{
	apt-config dump 2>/dev/null | grep -E \
		'^Acquire::(([a-z]+::)?([^ ]*::)?Proxy|Check-Valid-Until|Max-ValidTime|Retries|[a-z]+::(Timeout|CaInfo|Verify-[A-Za-z]+)|ForceIPv[46]) ' |
		grep -v '""' | sed 's/^/--aptopt=/'
}
