# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Suites in two lanes at once: a VM keeps little more than one processor busy, the rest
# needs two at times only. Each lane begins with its own suites, and when it is through
# takes what is left of the other's. A third has saved nothing.
#
# The script has a function run SUITE, and in mine[] the suites of each lane, in their
# order. In $results it keeps what it likes.

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

# begin_lane NUMBER: in a group of its own, so that it can be ended with all that it
# has started, but on this terminal, where sudo knows its user.
begin_lane()
{
	echo "=== beside the rest:${mine[$1]}; what they say follows it"
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
		if [ -e "$results/lane$i.done" ]; then # its number may be another's
			cat "$results/lane$i"
		else
			tail -n +1 -f --pid="${lanes[i - 1]}" "$results/lane$i"
		fi
		[ -e "$results/lane$i.good" ] || ok=1
	done
	lanes=()
	return "$ok"
}

# False if a suite failed.
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
