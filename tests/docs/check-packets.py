#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that every packet opcode and every VECTOR instruction of uapi/openreg_isa.h has all
its places in the tree, by the list in packets.toml. Names each place that is missing.

usage: check-packets.py          checks all
       check-packets.py NAME     prints the places of one, such as SORT, with file and line
"""
import pathlib
import re
import sys
import tomllib

TOP = pathlib.Path(__file__).resolve().parents[2]
HEADER = TOP / "uapi/openreg_isa.h"
LIST = pathlib.Path(__file__).with_name("packets.toml")
ENUMS = {"packet": ("openreg_opcode", "OPENREG_OP_"), "instruction": ("openreg_vop", "OPENREG_V_")}
NO_NAMES = {"END", "EXPERIMENT", "EXPERIMENT_END"}


def names(kind: str) -> list[str]:
    enum, prefix = ENUMS[kind]
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(encoding="utf-8"), flags=re.S)
    body = re.search(rf"enum {enum} {{(.*?)}}", text, re.S)[1]
    return [name for name in re.findall(rf"{prefix}(\w+)", body) if name not in NO_NAMES]


def pattern(find: str, name: str, value: str) -> re.Pattern:
    text = find.format(NAME=name, name=name.lower(), value=value)
    words = re.escape(text).replace(re.escape("..."), "[^\n]*?")
    begin = r"(?<!\w)" if find.startswith("{") else ""
    end = r"(?!\w)" if find.endswith("}") else ""
    return re.compile(begin + words + end)


def value_of(place: dict, name: str) -> str:
    return place.get("values", {}).get(name, name.lower())


class Tree:
    """The text of the files"""

    def __init__(self) -> None:
        self.texts: dict[str, list[tuple[pathlib.Path, str]]] = {}

    def files(self, glob: str) -> list[tuple[pathlib.Path, str]]:
        if glob not in self.texts:
            self.texts[glob] = [(path.relative_to(TOP), path.read_text(encoding="utf-8"))
                                for path in sorted(TOP.glob(glob))]
        return self.texts[glob]

    def look(self, place: dict, name: str) -> str:
        """Where the opcode has this place, as file:line, or "" """
        value = value_of(place, name)
        for find in place["find"]:
            wanted = pattern(find, name, value)
            for glob in place["file"]:
                for path, text in self.files(glob):
                    found = wanted.search(text)
                    if found:
                        line = text.count("\n", 0, found.end() - 1) + 1
                        return f"{path}:{line}"
        return ""


def numbers() -> dict[str, int]:
    """The instructions and their numbers"""
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(encoding="utf-8"), flags=re.S)
    body, found, number = re.search(r"enum openreg_vop {(.*?)}", text, re.S)[1], {}, 0
    for name, value in re.findall(r"OPENREG_V_(\w+)(?: = (\d+))?", body):
        number = int(value) if value else number
        found[name] = number
        number += 1
    return found


def types_errors() -> list[str]:
    """Compares the types that the plugin lets pass with those of the card."""
    path = "plugin/csrc/aten/program.h"
    number, text = numbers(), (TOP / path).read_text(encoding="utf-8")
    ranges = {kind: re.findall(
        r"in\(op, OPENREG_V_(\w+), OPENREG_V_(\w+)\)",
        re.search(rf"const bool {kind} = (.*?);", text, re.S)[1]) for kind in ("integers", "floats")}
    for end in {end for of_kind in ranges.values() for pair in of_kind for end in pair} - set(number):
        return [f"{path} uses OPENREG_V_{end}, which {HEADER.relative_to(TOP)} does not have"]
    errors = []
    table = (TOP / "qemu-device/card/vector/vector_ops.h").read_text(encoding="utf-8")
    for name, types in re.findall(r'V\((\w+), "\w+", (ALL|INT|FLOAT), (?:UNARY|BINARY|TEST\d),', table):
        is_in = {kind: any(number[first] <= number.get(name, -1) <= number[last]
                           for first, last in of_kind)
                 for kind, of_kind in ranges.items()}
        for kind, only in (("integers", "INT"), ("floats", "FLOAT")):
            if is_in[kind] != (types == only):
                errors.append(f"{name} has the types {types} in the card's table: check_type() of {path} "
                              f"must {'' if types == only else 'not '}have it in `{kind}`")
    return errors


def header_types() -> dict[str, str]:
    """The types of each instruction by the header: its own comment begins with them, or the
    comment of its group ends with them, or an earlier one says "as all below"."""
    body = re.search(r"enum openreg_vop {(.*?)\n}", HEADER.read_text(encoding="utf-8"), re.S)[1]
    kinds = {"F": "FLOAT", "I": "INT", "F32": "F32", "I64": "I64"}
    group, before, found = "ALL", "", {}
    for comment, name, behind in re.findall(
            r"/\*(.*?)\*/|OPENREG_V_(\w+)[^,\n]*,?(?:[ \t]*/\*(.*?)\*/)?", body, re.S):
        if not name:
            before = re.sub(r"\s+(\* )?", " ", comment).strip()
            group = kinds.get(before.rpartition(", ")[2], "ALL")
            continue
        of_one = re.match(r"(F32|I64|F|I)\b(, as all below)?", (behind or before).strip())
        found[name] = kinds[of_one[1]] if of_one else group
        if of_one and of_one[2]:
            group = found[name]
        before = ""
    return found


def header_errors() -> list[str]:
    """Compares the types in the header's comments with those of the card."""
    errors, header = [], header_types()
    table = (TOP / "qemu-device/card/vector/vector_ops.h").read_text(encoding="utf-8")
    for name, types in re.findall(r'V\((\w+), "\w+", (\w+), ', table):
        have = header.get(name)
        if have is None:
            errors.append(f"the card's table has {name}, but {HEADER.relative_to(TOP)} has no "
                          f"OPENREG_V_{name}")
        elif have != types:
            errors.append(f"{name} has the types {types} in the card's table: the comment behind "
                          f"OPENREG_V_{name} in {HEADER.relative_to(TOP)} says {have}")
    return errors


def minor_errors(since: list[dict]) -> list[str]:
    """Every name needs a minor version, and the header's must not be older."""
    errors = []
    minor = int(re.search(r"#define OPENREG_ISA_MINOR (\d+)", HEADER.read_text(encoding="utf-8"))[1])
    for kind in ENUMS:
        listed = {name: entry["minor"] for entry in since for name in entry.get(kind, [])}
        for name in names(kind):
            if name not in listed:
                errors.append(f"{name} has no minor version: {LIST.name} must have it in a "
                              "[[since]], with the number to which it increases "
                              f"OPENREG_ISA_MINOR, now {minor}")
            elif listed[name] > minor:
                errors.append(f"{LIST.name} says that cards have {name} since minor version "
                              f"{listed[name]}: {HEADER.relative_to(TOP)} must increase "
                              f"OPENREG_ISA_MINOR, now {minor}")
        for name in sorted(set(listed) - set(names(kind))):
            errors.append(f"{LIST.name} has {name} in a [[since]], but the header does not")
    return errors


def complaint(place: dict, name: str) -> str:
    find = place["find"][0].format(NAME=name, name=name.lower(),
                                   value=value_of(place, name))
    return (f"{name} has no {place['place']}: {' or '.join(place['file'])} must have "
            f"{find.strip()!r}: {place['do'].format(NAME=name, name=name.lower())}")


def show(tree: Tree, kinds: dict, since: list[dict], wanted: str) -> int:
    for kind, places in kinds.items():
        if wanted in names(kind):
            minors = [entry["minor"] for entry in since if wanted in entry.get(kind, [])]
            print(f"minor version: {minors[0] if minors else 'missing'}")
            for place in places:
                why = place.get("except", {}).get(wanted)
                where = tree.look(place, wanted) or "missing"
                print(f"{place['place']}: {f'not needed: {why}' if why else where}")
            return 0
    print(f"error: {HEADER.relative_to(TOP)} has no packet and no instruction {wanted}")
    return 1


def main() -> int:
    kinds, tree = tomllib.loads(LIST.read_text(encoding="utf-8")), Tree()
    since = kinds.pop("since")
    for places in kinds.values():
        for place in places:
            other = next((p for p in places if p["place"] == place.get("as")), {})
            for key in {"except", "values"} & set(other):
                place[key] = other[key] | place.get(key, {})
    if sys.argv[1:]:
        return show(tree, kinds, since, sys.argv[1])
    checks, errors = 0, []
    for kind, places in kinds.items():
        for place in places:
            excused = place.get("except", {})
            for name in sorted(set(excused) - set(names(kind))):
                errors.append(f"{LIST.name} excuses {name} from '{place['place']}', but the "
                              "header has no such opcode")
            for name in names(kind):
                checks += 1
                if name not in excused and not tree.look(place, name):
                    errors.append(complaint(place, name))
    errors += types_errors() + header_errors() + minor_errors(since)
    for error in errors:
        print("error:", error)
    print(f"packets: {checks} checks, {len(errors)} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
