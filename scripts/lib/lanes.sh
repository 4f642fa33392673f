# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Runs suites in two lanes at once: a VM keeps little more than one processor busy, and
# other suites need two only at times. Each lane runs its own suites first, then takes
# suites that the other lane has not started. A third lane saved no time.
#
# The calling script defines a function "run SUITE", and lists in mine[] the suites of
# each lane in their order. It may keep files in $results.

results=$(mktemp -d)
lanes=()
finish_lanes()
{
	local lane
	for lane in "${lanes[@]}"; do
		kill -- "-$lane" 2>/dev/null || true
		wait "$lane" || true
	done
	rm -rf "$results"
}
trap finish_lanes EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

run_lane()
{
	local number=$1 i suite status=0
	for ((i = 0; i < ${#mine[@]}; i++)); do
		for suite in ${mine[(number + i) % ${#mine[@]}]}; do
			mkdir "$results/$suite.taken" 2>/dev/null || continue
			run "$suite" || status=1
		done
	done
	return "$status"
}

# begin_lane NUMBER: starts the lane in its own process group, so that finish_lanes can
# kill it with all its children. It stays on this terminal, so sudo need not ask again.
begin_lane()
{
	echo "=== in parallel, output at the end:${mine[$1]}"
	set -m
	{
		run_lane "$1" && touch "$results/lane$1.good"
		touch "$results/lane$1.done"
	} > "$results/lane$1" 2>&1 </dev/null &
	lanes+=("$!")
	set +m
}

end_lanes()
{
	local i ok=0
	for ((i = 1; i <= ${#lanes[@]}; i++)); do
		if [ -e "$results/lane$i.done" ]; then # another process may have its pid
			cat "$results/lane$i"
		else
			tail -n +1 -f --pid="${lanes[i - 1]}" "$results/lane$i"
		fi
		[ -e "$results/lane$i.good" ] || ok=1
	done
	lanes=()
	return "$ok"
}

# Runs all lanes; false if a suite failed.
run_lanes()
{
	local i status=0
	for ((i = 1; i < ${#mine[@]}; i++)); do
		begin_lane "$i"
	done
	run_lane 0 || status=1
	end_lanes || status=1
	return "$status"
}
