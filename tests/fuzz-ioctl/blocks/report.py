#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Print how many basic blocks of openreg.ko have run, for each file and in total.

usage: report.py KO LIST... [--missing]
  KO         openreg.ko of the component kmod-blocks
  LIST       a copy of /sys/kernel/debug/openreg-blocks/list
  --missing  print only the lines with a block that has not run

Blocks of .init do not count: the kernel frees them after the driver is loaded.
"""
import collections
import re
import subprocess
import sys

CALLED = "__sanitizer_cov_trace_pc"
AFTER = 4  # bytes from a call's relocation to the end of the call


def run(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True,
                          **options).stdout


def text_sections(ko):
    """Return {name: offset} of the code sections; the kernel keeps the file's order."""
    end, places = 0, {}
    row = re.compile(r"\s*\[\s*\d+\] (\S+)\s+PROGBITS\s+\S+ \S+ (\S+) \S+ +(\w+)"
                     r" +\d+ +\d+ +(\d+)$")
    for line in run("readelf", "-SW", ko).splitlines():
        match = row.match(line)
        if not match or "A" not in match[3] or "X" not in match[3]:
            continue
        name, size, align = match[1], int(match[2], 16), int(match[4])
        if name.startswith(".init"):
            continue
        end = -(-end // align) * align
        places[name] = end
        end += size
    return places


def blocks(ko):
    """Return {offset: (section, offset in the section)} of all blocks."""
    places, found, section = text_sections(ko), {}, None
    for line in run("readelf", "-rW", ko).splitlines():
        match = re.match(r"Relocation section '\.rela(\S+)'", line)
        if match:
            section = match[1]
        elif CALLED in line and section in places:
            at = int(line.split()[0], 16) + AFTER
            found[places[section] + at] = (section, at)
    return found


def lines_of(ko, places):
    """Return {place: (file, line)}, with lines of the driver's own sources."""
    where, own = {}, set()
    for section in {section for section, _ in places}:
        mine = [at for name, at in places if name == section]
        out = run("addr2line", "-a", "-i", "-e", ko, "-j", section,
                  input="\n".join(f"{at - 1:x}" for at in mine))
        for text in out.splitlines():
            if text.startswith("0x"):
                place = (section, int(text, 16) + 1)
            elif place not in own:  # inlined functions come before their callers
                file, line = text.split(" ")[0].rsplit(":", 1)
                where[place] = (file.rsplit("/", 1)[-1], line)
                if "/kmod/" in file and file.endswith(".c"):
                    own.add(place)
    return where


def main():
    arguments = [one for one in sys.argv[1:] if one != "--missing"]
    if len(arguments) < 2 or any(one.startswith("-") for one in arguments):
        sys.exit(__doc__)
    ko, lists = arguments[0], arguments[1:]
    known = blocks(ko)
    if not known:
        sys.exit(f"{ko} has no blocks: use openreg.ko of scripts/build kmod-blocks")
    reached = {int(line, 16) for name in lists for line in open(name)}
    if reached - known.keys():
        sys.exit(f"{len(reached - known.keys())} addresses are no blocks of {ko}: "
                 "the lists belong to another build of the driver")
    lines = lines_of(ko, list(known.values()))
    where = {at: lines[place] for at, place in known.items()}
    if "--missing" in sys.argv:
        for file, line in sorted({where[at] for at in known.keys() - reached},
                                 key=lambda place: (place[0], len(place[1]), place[1])):
            print(f"{file}:{line}")
        return
    total = collections.Counter(where[at][0] for at in known)
    seen = collections.Counter(where[at][0] for at in reached)
    for file in sorted(total):
        print(f"{file:28} {seen[file]:5} of {total[file]:5} blocks")
    print(f"{'in all':28} {len(reached):5} of {len(known):5} blocks "
          f"{100 * len(reached) / len(known):6.1f} %")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(error.stderr.strip())
    except (OSError, ValueError) as error:
        sys.exit(str(error))
