#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the links of pages, and the sections of the manual that the glossary names.

usage: check-links.py PAGE...    (in the checkout)
"""
import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\(([^()\s]+)\)")
SECTION = re.compile(r'manual, "([^"]+)"')
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def missing(page: pathlib.Path) -> list[str]:
    """Links to files that are not there."""
    text = CODE.sub("", page.read_text())
    files = [link.partition("#")[0] for link in LINK.findall(text) if "://" not in link]
    return [f"{page}: {file} is not there"
            for file in files if file and not (page.parent / file).exists()]


def sections() -> set[str]:
    lines = (TOP / "docs/specs/openreg.rst").read_text().splitlines()
    return {title for title, line in zip(lines, lines[1:])
            if title and len(set(line)) == 1 and line[0] in "=-~^\"'" and len(line) == len(title)}


def main() -> int:
    pages = [pathlib.Path(name) for name in sys.argv[1:]]
    wrong = [error for page in pages for error in missing(page)]
    if not pages:
        wrong.append(__doc__)
    named = SECTION.findall((TOP / "docs/glossary.md").read_text())
    wrong += [f"docs/glossary.md: the manual has no section '{name}'"
              for name in sorted(set(named) - sections())]
    if not named:
        wrong.append("docs/glossary.md names no section of the manual")
    for error in wrong:
        print(error, file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
