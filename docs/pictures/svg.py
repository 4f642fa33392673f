# SPDX-License-Identifier: MIT
"""What the pictures share: elements of SVG, and writing or checking a picture."""
import pathlib
import sys
from html import escape

TOP = pathlib.Path(__file__).resolve().parents[2]
INK = "#34506e"
FILL = "#eef3fa"


def text(x: int, y: int, words: str, more: str = "") -> str:
    return f'<text x="{x}" y="{y}"{more}>{escape(words)}</text>'


def line(begin: tuple[int, int], end: tuple[int, int], more: str) -> str:
    return (f'<line x1="{begin[0]}" y1="{begin[1]}" x2="{end[0]}" y2="{end[1]}" '
            f'stroke="{INK}" {more}/>')


def box(x: int, y: int, width: int, height: int) -> str:
    return (f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" '
            f'fill="{FILL}" stroke="{INK}"/>')


def svg(width: int, height: int, maker: str, elements: list[str]) -> str:
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="monospace" font-size="12">',
        f"<!-- {maker} draws this -->",
        '<marker id="head" markerWidth="9" markerHeight="8" refX="8" refY="4" orient="auto">'
        f'<path d="M0,0 L9,4 L0,8 z" fill="{INK}"/></marker>',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        *elements, "</svg>"]) + "\n"


def is_there(path: str, word: str) -> bool:
    """Whether the checkout has the path, and the file the word."""
    file = TOP / path
    return file.exists() and (not word or word in file.read_text(encoding="utf-8"))


def main(maker: str, usage: str, name: str, picture: str, names: list[tuple[str, str]]) -> int:
    """Writes the picture, or compares it with --check. names: (path, word in the file) that
    the picture tells of."""
    if sys.argv[1:] not in ([], ["--check"]):
        print(usage, file=sys.stderr)
        return 2
    source = (TOP / maker).read_text(encoding="utf-8").splitlines()
    gone = [(path, word) for path, word in names if not is_there(path, word)]
    for path, word in gone:
        at = 1 + next(i for i, code in enumerate(source) if f'"{word or path}"' in code)
        print(f"{maker}:{at}: there is no {word + ' in ' if word else ''}{path}",
              file=sys.stderr)
    if gone:
        return 1
    path = TOP / "docs/pictures" / name
    if not sys.argv[1:]:
        path.write_text(picture, encoding="utf-8")
    elif not path.exists() or path.read_text(encoding="utf-8") != picture:
        print(f"docs/pictures/{name}:1: is not what {maker} draws; run it again",
              file=sys.stderr)
        return 1
    return 0
