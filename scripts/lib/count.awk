# SPDX-License-Identifier: MIT
# Counts the results in a test runner's output, and prints "NAME: N passed, N failed".
# Variables: -v format=tap|pytest|meson|plain -v suite=NAME. The exit status is 1 if a
# test failed or none ran.

function number_before(word,    text)
{
	if (!match($0, "[0-9]+ " word))
		return 0
	text = substr($0, RSTART, RLENGTH)
	sub(/ .*/, "", text)
	return text + 0
}

{ sub(/\r$/, "") }

# Only lines without indentation count: a subtest is part of its parent.
format == "tap" && /^ok / { if (/# *[Ss][Kk][Ii][Pp]/) skipped++; else passed++ }
format == "tap" && /^not ok / { if (/# *(TODO|XFAIL)/) skipped++; else failed++ }

format == "pytest" && / in [0-9.]+s/ && /[0-9]+ (passed|failed|error|skipped)/ {
	passed += number_before("passed") + number_before("xfailed")
	failed += number_before("failed") + number_before("error") + number_before("xpassed")
	skipped += number_before("skipped")
}

format == "meson" && /^Ok: / { passed += $2 }
format == "meson" && /^(Fail|Timeout|Unexpected Pass|UnexpectedPass): / { failed += $NF }
format == "meson" && /^Skipped: / { skipped += $2 }

format == "plain" && /^([a-z-]+: )?[0-9]+ passed, [0-9]+ failed/ {
	passed += number_before("passed")
	failed += number_before("failed")
	skipped += number_before("skipped")
}

END {
	printf "%s: %d passed, %d failed", suite, passed, failed
	if (skipped)
		printf ", %d skipped", skipped
	print ""
	exit !(failed == 0 && passed > 0)
}
