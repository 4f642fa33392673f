# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Components: what is built, from what, and where the result lies.
#
# A component NAME or NAME-VARIANT is built by the recipe scripts/build.d/NAME,
# which runs in the root as "recipe OUT [VARIANT]". Its head says what it reads:
#   # inputs: files and directories of the checkout
#   # needs: other components (their OUT is in $DEP_<name>, dashes as _)
#   # needs-VARIANT: more of them for one variant
#   # variants: the names of its variants
# The result is $OPENREG_CACHE/NAME-VARIANT/KEY. KEY is a hash over the inputs,
# the recipe, the keys of what it needs and the packages in the root, so a result
# is either there and right or not there.

CHANGED=75	# exit status: an input changed after it was hashed, try again
KEEP=5	# results kept per component, unless its recipe says "# keep: N"
IN_USE=7200	# seconds after which no command uses a result that it asked for

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

# Every component that has a recipe, and the variants that it names.
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

# The files of the inputs, but for what builds in the checkout leave behind.
list_files()
{
	find "$@" \( -name __pycache__ -o -name '*.egg-info' \) -prune -o \
		\( -type f -o -type l \) -not -name '*.o' -not -name '*.ko' \
		-not -name '*.mod' -not -name '*.mod.c' -not -name '.*.cmd' \
		-not -name Module.symvers -not -name modules.order -print0
}

# Contents and names, not times: a fresh clone hashes the same.
hash_files()
{
	local dir=$1
	shift
	(cd "$dir" && list_files "$@" | sort -z | xargs -0 sha256sum) |
		sha256sum | cut -c1-16
}

declare -A KEY_OF INPUTS_OF

# Sets KEY_OF[NAME], once: hashes are remembered for the life of the script.
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

# Also false while there is no root, which every key depends on.
component_ready()
{
	[ -e "$(root_path)/.openreg-id" ] || return 1
	[ "$1" != root ] || return 0
	component_key "$1"
	[ -e "$OPENREG_CACHE/$1/${KEY_OF[$1]}/.done" ]
}

# Removes what failed builds left, and then results that no command has asked for
# lately: checkouts share the cache, and another one may run what this one does not
# need. The lock is held, so nothing without a stamp is being built.
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

# What the recipe sees of the components it needs.
component_environment()
{
	local need
	for need in $(component_needs "$1"); do
		component_key "$need"
		echo "DEP_${need//-/_}=/cache/$need/${KEY_OF[$need]}"
	done
}

# A copy of the inputs, which nobody edits during the build, and which has
# nothing but the inputs that the recipe names.
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

# Every half minute, what a build that goes on says of itself.
component_progress()
{
	local name=$1 log=$2 start=$SECONDS step never
	# A sleep would outlive this, and hold what it has inherited.
	exec {never}<> <(:)
	while kill -0 "$$" 2>/dev/null; do
		read -rt 30 -u "$never" || true
		step=$(grep -oE '^\[[0-9]+/[0-9]+\]' "$log" 2>/dev/null | tail -n 1) || true
		say "building $name: $((SECONDS - start)) s${step:+, step ${step//[][]/}}"
	done
}

# The result is built in place, since build trees know where they are, and
# counts only once its stamp is there.
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
			die "building $name was interrupted: the same command goes on with it"
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

# Builds NAME and all it needs, unless they are there.
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
