# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Components: how each is built, from which inputs, and where the result is.
#
# The recipe scripts/build.d/NAME builds the component NAME or NAME-VARIANT. It runs in
# the root as "recipe OUT [VARIANT]". These comments at its head describe it:
#   # inputs: files and directories of the checkout
#   # needs: other components (their OUT is in $DEP_<name>, dashes as _)
#   # needs-VARIANT: more components, for this variant
#   # variants: the names of its variants
#   # keep: the number of old results to keep
# The result is $OPENREG_CACHE/NAME-VARIANT/KEY. KEY is a hash over the inputs, the
# recipe, the keys of the needed components, and the packages in the root. So a result
# with the right KEY is never out of date.

CHANGED=75	# exit status: an input changed after it was hashed, try again
KEEP=5	# results kept per component, unless its recipe says "# keep: N"
IN_USE=7200	# seconds after which no command still uses a result that it asked for

recipe_of()
{
	local name=$1
	[ -e "$here/build.d/$name" ] || name=${name%-*}
	echo "$here/build.d/$name"
}

variant_of()
{
	[ -e "$here/build.d/$1" ] || echo "${1##*-}"
}

recipe_field()
{
	sed -n "s/^# $2: *//p" "$1"
}

component_needs()
{
	local recipe variant
	recipe=$(recipe_of "$1")
	variant=$(variant_of "$1")
	recipe_field "$recipe" needs
	[ -z "$variant" ] || recipe_field "$recipe" "needs-$variant"
}

# Prints the names of all components, with their variants.
component_list()
{
	local recipe variant
	echo root
	for recipe in "$here"/build.d/*; do
		echo "${recipe##*/}"
		for variant in $(recipe_field "$recipe" variants); do
			echo "${recipe##*/}-$variant"
		done
	done
}

component_inputs()
{
	local recipe path
	recipe=$(recipe_of "$1")
	for path in $(recipe_field "$recipe" inputs) scripts/build.d/"${recipe##*/}"; do
		[ -e "$OPENREG_SRC/$path" ] || die "$path is missing in the checkout"
		echo "$path"
	done
}

# list_files PATH...: prints the files below the paths, without the products of builds
# in the checkout
list_files()
{
	find "$@" \( -name __pycache__ -o -name '*.egg-info' \) -prune -o \
		\( -type f -o -type l \) -not -name '*.o' -not -name '*.ko' \
		-not -name '*.mod' -not -name '*.mod.c' -not -name '.*.cmd' \
		-not -name Module.symvers -not -name modules.order -print0
}

# hash_files DIRECTORY PATH...: hashes contents and names, but no times, so that a fresh
# clone has the same hash
hash_files()
{
	local dir=$1
	shift
	(cd "$dir" && list_files "$@" | sort -z | xargs -0 sha256sum) |
		sha256sum | cut -c1-16
}

declare -A KEY_OF INPUTS_OF

# component_key NAME: sets KEY_OF[NAME]. The script hashes each component only once.
component_key()
{
	local name=$1 need inputs text
	[ -z "${KEY_OF[$name]:-}" ] || return 0
	text="$name $(root_id)"
	for need in $(component_needs "$name"); do
		component_key "$need"
		text+=" $need=${KEY_OF[$need]}"
	done
	inputs=$(component_inputs "$name")
	# shellcheck disable=SC2086 # a list of paths
	INPUTS_OF[$name]=$(hash_files "$OPENREG_SRC" $inputs)
	KEY_OF[$name]=$(printf '%s' "$text ${INPUTS_OF[$name]}" | sha256sum | cut -c1-16)
}

component_path()
{
	if [ "$1" = root ]; then
		root_path
		return
	fi
	component_key "$1"
	echo "$OPENREG_CACHE/$1/${KEY_OF[$1]}"
}

# component_ready NAME: true if the result is in the cache. Every key depends on the
# root, so without the root it is false.
component_ready()
{
	[ -e "$(root_path)/.openreg-id" ] || return 1
	[ "$1" != root ] || return 0
	component_key "$1"
	[ -e "$OPENREG_CACHE/$1/${KEY_OF[$1]}/.done" ]
}

# component_prune NAME: removes the remains of failed builds, and then old results that
# no command has asked for lately. Checkouts share the cache, so another one may still
# use an old result. The caller holds the component's lock, so a directory without a
# stamp is no build in progress.
component_prune()
{
	local old keep
	keep=$(recipe_field "$(recipe_of "$1")" keep)
	for old in "$OPENREG_CACHE/$1"/*; do
		[ -e "$old/.done" ] || remove_tree "$old"
	done
	find "$OPENREG_CACHE/$1" -mindepth 2 -maxdepth 2 -name .done -printf '%T@ %h\n' |
		sort -rn | awk -v keep="${keep:-$KEEP}" -v since=$(($(date +%s) - IN_USE)) \
			'NR > keep && $1 < since { sub(/[^ ]* /, ""); print }' |
		while read -r old; do
			remove_tree "$old"
		done
}

# component_environment NAME: prints the recipe's variables DEP_*
component_environment()
{
	local need
	for need in $(component_needs "$1"); do
		component_key "$need"
		echo "DEP_${need//-/_}=/cache/$need/${KEY_OF[$need]}"
	done
}

# component_snapshot NAME TREE: copies the inputs, and only these, to TREE, so that
# edits during the build do no harm
component_snapshot()
{
	local name=$1 tree=$2 inputs
	inputs=$(component_inputs "$name")
	remove_tree "$tree"
	mkdir -p "$tree"
	# shellcheck disable=SC2086 # a list of paths
	(cd "$OPENREG_SRC" && list_files $inputs | xargs -0 cp -P --parents \
		--preserve=mode,timestamps -t "$tree")
	# shellcheck disable=SC2086
	[ "$(hash_files "$tree" $inputs)" = "${INPUTS_OF[$name]}" ] || {
		remove_tree "$tree"
		exit "$CHANGED"
	}
}

component_run_recipe()
{
	local name=$1 tree=$2 log=$3 recipe variant env
	recipe=$(recipe_of "$name")
	variant=$(variant_of "$name")
	mapfile -t env < <(component_environment "$name")
	# shellcheck disable=SC2086 # no variant is no argument
	OPENREG_TREE=$tree nice "$here/in-root" env "${env[@]}" \
		"/openreg/scripts/build.d/${recipe##*/}" \
		"/cache/$name/${KEY_OF[$name]}" $variant >"$log" 2>&1 </dev/null
}

# component_progress NAME LOG: prints the build's progress every half minute
component_progress()
{
	local name=$1 log=$2 start=$SECONDS step never
	# Wait with read, not with sleep: a sleep process would outlive this shell and keep
	# the inherited files open.
	exec {never}<> <(:)
	while kill -0 "$$" 2>/dev/null; do
		read -rt 30 -u "$never" || true
		step=$(grep -oE '^\[[0-9]+/[0-9]+\]' "$log" 2>/dev/null | tail -n 1) || true
		say "building $name: $((SECONDS - start)) s${step:+, step ${step//[][]/}}"
	done
}

# component_make NAME: builds the result at its final path, since build trees contain
# their own path. The result counts only when the stamp .done exists.
component_make()
{
	local name=$1 out log tree start=$SECONDS watcher interrupted=''
	component_key "$name"
	out=$OPENREG_CACHE/$name/${KEY_OF[$name]}
	[ ! -e "$out/.done" ] || return 0
	mkdir -p "$OPENREG_CACHE/log" "${out%/*}"
	log=$OPENREG_CACHE/log/$name.${KEY_OF[$name]}
	tree=$OPENREG_CACHE/tree/$name.$$
	remove_tree "$out"
	component_snapshot "$name" "$tree"
	say "building $name"
	component_progress "$name" "$log" &
	watcher=$!
	disown
	trap 'interrupted=yes' INT TERM
	component_run_recipe "$name" "$tree" "$log" || {
		kill "$watcher" 2>/dev/null || true
		remove_tree "$tree"
		[ -z "$interrupted" ] ||
			die "building $name was interrupted: run the same command to continue"
		tail -n 40 "$log" >&2
		die "$name does not build, the whole log is $log"
	}
	trap - INT TERM
	kill "$watcher" 2>/dev/null || true
	remove_tree "$tree"
	mv "$log" "$out/build.log"
	touch "$out/.done"
	component_prune "$name"
	say "built $name in $((SECONDS - start)) s"
}

# component_ensure NAME: builds NAME and the components it needs, unless they are built
component_ensure()
{
	local name=$1 need out
	root_ensure
	[ "$name" != root ] || return 0
	component_key "$name"
	out=$OPENREG_CACHE/$name/${KEY_OF[$name]}
	if [ -e "$out/.done" ]; then
		touch -c "$out/.done" 2>/dev/null || true
		return 0
	fi
	for need in $(component_needs "$name"); do
		component_ensure "$need"
	done
	with_lock "$name" component_make "$name"
}
