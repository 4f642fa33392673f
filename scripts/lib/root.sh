# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# The Debian root: its path, and how it is made.

ROOT_SUITE=forky
SOURCE_SUITE=trixie	# QEMU's source package and kernel lts come from here

# Prints a hash over everything that determines the root's contents.
root_key()
{
	{ echo "$ROOT_SUITE $SOURCE_SUITE"; package_list
	  declare -f root_mmdebstrap root_finish; } | sha256sum | cut -c1-16
}

package_list()
{
	sed 's/#.*//' "$here/packages" | tr -s ' \n' '\n' | sed '/^$/d'
}

root_path()
{
	echo "$OPENREG_CACHE/root/$(root_key)"
}

# Prints a hash over the root's package versions, for the keys of components.
root_id()
{
	cat "$(root_path)/.openreg-id"
}

root_mmdebstrap()
{
	local dir=$1 debs=$2 settings
	mapfile -t settings < <(host_apt_settings)
	# $debs keeps the fetched packages until the root is complete, so that a run
	# after an interrupted one need not fetch them again. The kernel's own initramfs
	# is never booted, and takes half a minute to make. Without dracut's program its
	# hooks do nothing.
	unshare --mount --propagation private \
	mmdebstrap --mode=root --variant=apt \
		--skip=download/empty,essential/unlink \
		"${settings[@]}" \
		--dpkgopt=force-unsafe-io \
		--dpkgopt='path-exclude=/usr/share/doc/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*' \
		--dpkgopt='path-exclude=/usr/share/man/*' \
		--dpkgopt='path-exclude=/usr/bin/dracut' \
		--dpkgopt='path-exclude=/usr/sbin/update-initramfs' \
		--setup-hook="mkdir -p \"\$1/var/cache/apt/archives\"" \
		--setup-hook="mount --bind '$debs' \"\$1/var/cache/apt/archives\"" \
		--essential-hook="ln -s /usr/bin/true \"\$1/usr/sbin/update-initramfs\"" \
		--customize-hook="umount \"\$1/var/cache/apt/archives\"" \
		--include="$(package_list | paste -sd,)" \
		"$ROOT_SUITE" "$dir"
}

# Makes the mount points for scripts/in-root, and lists the stable suite's sources for apt.
root_finish()
{
	local dir=$1
	mkdir -p "$dir/openreg" "$dir/cache"
	grep -m1 "^deb .* $ROOT_SUITE main" "$dir/etc/apt/sources.list" |
		sed "s/^deb/deb-src/; s/ $ROOT_SUITE / $SOURCE_SUITE /" \
		> "$dir/etc/apt/sources.list.d/source.list"
	chroot "$dir" dpkg-query -W | sha256sum | cut -c1-16 > "$dir/.openreg-id"
}

# root_explain LOG: prints the cause of a failed mmdebstrap and its remedy, and exits
root_explain()
{
	if grep -qE 'NO_PUBKEY|not signed' "$1"; then
		die "the host's debian-archive-keyring is too old for the suite $ROOT_SUITE" \
			"upgrade it (apt-get install debian-archive-keyring), log: $1"
	elif grep -qE 'Could not resolve|Temporary failure|Could not connect|timed out' "$1"; then
		die "no Debian mirror answers" \
			"check the network and the proxy settings of apt, then run this again (log: $1)"
	elif grep -q 'No space left' "$1"; then
		die "the disk is full" "make room in $OPENREG_CACHE, then run this again"
	elif grep -q 'Unable to locate package' "$1"; then
		die "$(grep -m1 -o 'Unable to locate package.*' "$1") in $ROOT_SUITE" \
			"if Debian renamed it, correct scripts/packages (log: $1)"
	fi
	die "mmdebstrap failed, its log is $1"
}

# root_prune DIRECTORY: keeps the two newest roots, since another checkout may use the
# older one
root_prune()
{
	local old
	find "$1" -mindepth 2 -maxdepth 2 -name .openreg-id -printf '%T@ %h\n' |
		sort -rn | tail -n +3 | cut -d' ' -f2- |
		while read -r old; do
			remove_tree "$old"
		done
}

root_make()
{
	local final=$1 base tmp log
	[ ! -e "$final/.openreg-id" ] || return 0
	host_install
	need_space "$OPENREG_CACHE" 15
	base=$OPENREG_CACHE/root
	tmp=$base/.new
	log=$base/root.log
	mkdir -p "$base/debs"
	remove_tree "$tmp"
	say "making the Debian $ROOT_SUITE root (takes 3 to 5 minutes, fetches 750 MB)"
	# Before apt runs dpkg, it discards what a terminal at standard input holds: that may be
	# the commands that a script has for the shell of make lab.
	if [ -t 2 ]; then
		root_mmdebstrap "$tmp" "$base/debs" 2>&1 </dev/null |
			tee "$log" | grep -E '^[IEW]:' >&2
	else
		root_mmdebstrap "$tmp" "$base/debs" >"$log" 2>&1 </dev/null
	fi || { tail -15 "$log" >&2; root_explain "$log"; }
	root_finish "$tmp"
	remove_tree "$final"
	mv "$tmp" "$final"
	remove_tree "$base/debs"
	root_prune "$base"
	say "the root is $final"
}

# Makes the root, unless the cache has it.
root_ensure()
{
	local path
	path=$(root_path)
	[ -e "$path/.openreg-id" ] || with_lock root root_make "$path"
}
