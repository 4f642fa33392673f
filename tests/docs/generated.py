# SPDX-License-Identifier: MIT
"""Parts of a page that a program writes, between "<!-- NAME -->" and "<!-- end -->"."""
import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]


def table(heads: list[str], rows: list[list[str]]) -> list[str]:
    """The lines of a table. A head that ends in ":" makes a column of numbers."""
    line = "| " + " | ".join(head.rstrip(":") for head in heads) + " |"
    rule = "|" + "|".join("---:" if head.endswith(":") else "---" for head in heads) + "|"
    return [line, rule, *("| " + " | ".join(row) + " |" for row in rows)]


def fill(text: str, parts: dict[str, list[str]]) -> str:
    """The page with the lines of each part between its marks."""
    for name, lines in parts.items():
        begin = f"<!-- {name} -->\n"
        if text.count(begin) != 1:
            raise ValueError(f"1: has no line '{begin.strip()}', or several")
        text = re.sub(f"({re.escape(begin)}).*?(<!-- end -->\n)",
                      lambda m: m[1] + "".join(line + "\n" for line in lines) + m[2],
                      text, count=1, flags=re.S)
    return text


def update(page: str, parts: dict[str, list[str]], check: bool, maker: str) -> bool:
    """Writes the parts into the page. With check: prints the first line that differs.
    Returns whether all is well."""
    path = TOP / page
    old = path.read_text(encoding="utf-8")
    try:
        new = fill(old, parts)
    except ValueError as error:
        print(f"{page}:{error}", file=sys.stderr)
        return False
    if not check:
        if new != old:
            path.write_text(new, encoding="utf-8")
        return True
    if new == old:
        return True
    have, want = old.splitlines(), new.splitlines()
    at = next((i for i, pair in enumerate(zip(have, want)) if pair[0] != pair[1]),
              min(len(have), len(want)))
    for mark, lines in ("has", have), ("wants", want):
        print(f"{page}:{at + 1}: {mark}: {lines[at] if at < len(lines) else '(end)'}",
              file=sys.stderr)
    print(f"  run {maker} to write the page again", file=sys.stderr)
    return False
