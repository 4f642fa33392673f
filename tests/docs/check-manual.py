#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares docs/specs/openreg.rst with the headers, in both directions.

A table of the manual must list every constant, register, struct layout and VECTOR
instruction of the headers with the right numbers. The card's table of registers must agree
with both. Every name in the manual must exist in the headers. The bytes of the worked
examples must match their descriptions. The numbers of the headers come from
the compiler.

usage: check-manual.py [MANUAL]    (in the checkout; CC names the compiler)
"""
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
HEADERS = [TOP / "uapi/openreg_isa.h", TOP / "uapi/openreg_regs.h"]
VECTOR = TOP / "qemu-device/card/vector/vector_ops.h"
REGISTERS = TOP / "qemu-device/card/core/reg_table.h"


class Report:
    """Count checks, and print the failed ones."""

    def __init__(self):
        self.checks = 0
        self.errors = 0

    def check(self, good, message):
        self.checks += 1
        if not good:
            self.errors += 1
            print("error:", message)

    def same_keys(self, what, manual, headers):
        for name in sorted(headers - manual):
            self.check(False, f"{what} {name} is missing from the manual")
        for name in sorted(manual - headers):
            self.check(False, f"{what} {name} of the manual is not in the headers")
        self.checks += len(manual & headers)


def without_comments(text):
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def constant_names(text):
    """The names of object-like macros with a value, and of all enumerators."""
    text = without_comments(text).replace("\\\n", " ")
    names = re.findall(r"^#define (OPENREG_\w+)[ \t]+\S", text, flags=re.M)
    for body in re.findall(r"enum \w+ \{(.*?)\}", text, flags=re.S):
        names += re.findall(r"OPENREG_\w+", body)
    return names


def struct_fields(text):
    """{struct: [field path]}. A named inner struct also counts as a struct of its own."""
    structs = {}
    text = re.sub(r"^#.*?(?<!\\)$", "", without_comments(text), flags=re.S | re.M)
    for name, body in re.findall(r"\nstruct (\w+) \{(.*?)\n\};", text, flags=re.S):
        for inner, path in re.findall(r"struct \{(.*?)\} (\w+);", body, flags=re.S):
            structs[f"{name}.{path}"] = field_names(inner, path + ".")
        body = re.sub(r"struct \{.*?\} \w+;", "", body, flags=re.S)
        body = re.sub(r"union \{|\};", "", body)
        structs[name] = field_names(body, "")
    return structs


def field_names(body, prefix):
    names = re.findall(r"(\w+)(?:\[[^]]+\])?;", body)
    return [prefix + name for name in names]


def compile_and_run(source):
    with tempfile.TemporaryDirectory() as tmp:
        path = pathlib.Path(tmp) / "layout"
        path.with_suffix(".c").write_text(source)
        subprocess.run([os.environ.get("CC", "cc"), "-I", TOP / "uapi", "-I",
                        VECTOR.parent, "-I", REGISTERS.parent, "-o", path,
                        path.with_suffix(".c")],
                       check=True)
        out = subprocess.run([path], check=True, stdout=subprocess.PIPE, text=True)
    return [line.split("\t") for line in out.stdout.splitlines()]


def read_with_compiler(names, structs):
    """The values of constants, the layouts of structs, the VECTOR table, and the card's
    registers, printed by a compiled program."""
    lines = ["#include <stddef.h>", "#include <stdio.h>", "#include <stdint.h>",
             '#include "openreg_regs.h"', '#include "vector_ops.h"',
             '#include "reg_table.h"',
             "#define R(name, bits, write, rest) "
             'printf("r\\t" #name "\\t%d\\t%d\\t" #write "\\n", OPENREG_REG_##name, bits);',
             "#define V(op, name, types, form, text) \\",
             '  printf("v\\t%s\\t%d\\t%s\\t%s\\t%s\\n", name, OPENREG_V_##op, '
             "#types, #form, text);",
             "int main(void) {", "OPENREG_VECTOR_OPS(V)",
             "REGS_FIXED(R) REGS_STATE(R) REGS_STATS(R)"]
    for name in names:
        lines.append(f'printf("c\\t{name}\\t%llu\\n", '
                     f"(unsigned long long){name});")
    for name, fields in structs.items():
        outer = "struct " + name.split(".")[0]
        lines.append(f'printf("s\\t{name}\\t%zu\\n", sizeof({outer}));')
        for field in fields:
            lines.append(f'printf("f\\t{name}\\t{field}\\t%zu\\t%zu\\n", '
                         f"offsetof({outer}, {field}), "
                         f"sizeof((({outer} *)0)->{field}));")
    return compile_and_run("\n".join(lines) + "\nreturn 0; }\n")


def register_access(text):
    """Return {name: RO, RW, RO64 or RW64} from the comments behind the registers."""
    access = dict(re.findall(r"#define OPENREG_REG_(\w+)\s+0x\w+\s*/\* (R[OW]64|R[OW])\b",
                             text))
    for name in re.findall(r"#define OPENREG_REG_(STAT_\w+)", text):
        access[name] = "RO64"  # as the comment above these registers says
    return access


def cells(line, columns):
    return [line[a:b].strip() for a, b in columns]


def manual_tables(lines):
    """The simple tables, as (title of the table directive or "", rows of cells)."""
    tables, title, bars, rows, columns = [], "", 0, [], []
    for line in lines:
        found = re.match(r"\.\. table:: (.*)", line)
        if found:
            title = found.group(1)
        elif re.fullmatch(r"\s*=+(  =+)+", line):
            bars += 1
            columns = [m.span() for m in re.finditer(r"=+", line)]
            columns[-1] = (columns[-1][0], None)
            if bars == 3:
                tables.append((title, rows))
                title, bars, rows = "", 0, []
        elif bars == 1:
            rows.append(cells(line, columns))
        elif bars == 2:
            row = cells(line, columns)
            if row[0]:
                rows.append(row)
            else:  # a continuation line of the last cell
                rows[-1][-1] += " " + row[-1]
    return tables


def unquote(cell):
    return cell.strip("`")


def check_constants(report, tables, values):
    seen = {}
    for _, rows in tables:
        if rows[0][0] != "Constant":
            continue
        for name, value, meaning in rows[1:]:
            name = unquote(name)
            report.check(name not in seen, f"the manual lists {name} twice")
            report.check(bool(meaning), f"{name} has no meaning")
            seen[name] = int(value, 0)
    # Registers and VECTOR's constants have their own tables.
    wanted = {name: value for name, value in values.items()
              if not re.match(r"OPENREG_(REG_|V_|VFORM_|VTYPES_)", name)}
    report.same_keys("constant", set(seen), set(wanted))
    for name in set(seen) & set(wanted):
        report.check(seen[name] == wanted[name],
                     f"{name} is {wanted[name]:#x}, the manual says {seen[name]:#x}")


def check_registers(report, tables, header, card):
    """header and card: {name: (offset, access)}"""
    seen = {}
    for _, rows in tables:
        if rows[0][1] != "Register":
            continue
        for offset, name, how, _ in rows[1:]:
            seen[unquote(name)] = (int(offset, 0), how)
    report.same_keys("register", set(seen), set(header))
    report.same_keys("register", set(seen), set(card))
    for name in set(seen) & set(header) & set(card):
        report.check(seen[name] == header[name] == card[name],
                     f"register {name}: the header says {header[name]}, the card's table "
                     f"{card[name]}, the manual {seen[name]}")


def check_structs(report, tables, layout, sizes):
    seen = {}
    for title, rows in tables:
        found = re.fullmatch(r"struct ([\w.]+), (\d+) bytes", title)
        if not found:
            continue
        name = found.group(1)
        prefix = name.split(".")[1] + "." if "." in name else ""
        seen[name] = {prefix + unquote(field): (int(offset), int(size))
                      for offset, size, field, _ in rows[1:]}
        report.check(int(found.group(2)) == sizes.get(name),
                     f"struct {name} has {sizes.get(name)} bytes")
    report.same_keys("struct", set(seen), set(layout))
    for name in set(seen) & set(layout):
        report.check(seen[name] == layout[name],
                     f"struct {name} is {layout[name]}, the manual says {seen[name]}")


def check_vector(report, tables, wanted):
    seen = {}
    for _, rows in tables:
        if rows[0][0] != "Name":
            continue
        for name, op, types, form, text in rows[1:]:
            text = re.sub(r"\\(.)", r"\1", text)
            seen[unquote(name)] = (int(op), types, form, "".join(text.split()))
    report.same_keys("instruction", set(seen), set(wanted))
    for name in set(seen) & set(wanted):
        report.check(seen[name] == wanted[name],
                     f"instruction {name} is {wanted[name]}, "
                     f"the manual says {seen[name]}")


def check_names(report, text, names):
    """Checks that every OPENREG_ name in the manual's text exists."""
    for name in sorted(set(re.findall(r"\bOPENREG_\w+", text))):
        report.check(name in names, f"{name} of the manual is not in the headers")


def example_packet():
    """The addition that the manual describes, built from its description."""
    def address(segment, offset):
        return 0x9f << 55 | segment << 38 | offset

    packet = struct.pack("<BBHIQ", 3, 3, 0, 0x1234, 0)
    packet += struct.pack("<BBBB4xQ", 1, 3, 0, 4, 0) + struct.pack("<q", 16)
    for offset in (0x2000, 0, 0x1000):
        packet += struct.pack("<QB7xq", address(5, offset), 1, 1)
    for op, dst, a, b, aux in ((0, 0, 0, 0, 1), (0, 1, 0, 0, 2), (16, 2, 0, 1, 0),
                               (1, 0, 2, 0, 0)):
        packet += struct.pack("<BBBBBBH", op, 0, dst, a, b, 0, aux)
    return packet.ljust(3 * 64, b"\0")


def example_commands():
    """The examples of the section "Examples in bytes", built from their descriptions."""
    def address(segment):
        return 0x9f << 55 | 3 << 51 | segment << 38

    fill = struct.pack("<HHIII3Q24x", 9, 0, 0, 0, 0, 0x2000, 0x1000, 0xab)
    bind = struct.pack("<HHIIIIIQQQII8x", 3, 0, 7, 2, 0, 2, 3, 10000, 0x12345000, 3, 12, 0x100)
    pages = struct.pack("<3Q", 0x40001000, 0x7f000, 0x40003000)
    nop = struct.pack("<BBHIQ", 0, 1, 0, 0x1234, 0)
    copy = struct.pack("<BBHIQ", 1, 2, 0, 0x5678, 0)
    copy += struct.pack("<BBBB4xQ", 1, 2, 0, 0, 0) + struct.pack("<q", 4096)
    for segment in (1, 2):
        copy += struct.pack("<QB7xq", address(segment), 6, 1)
    return [fill, bind, pages.ljust(32, b"\0"), nop, copy.ljust(96, b"\0")]


def check_examples(report, text):
    """Each dump begins at offset 0."""
    dump = re.findall(r"^   ([0-9a-f]{2}): ((?:[0-9a-f]{2} ){15}[0-9a-f]{2})", text,
                      flags=re.M)
    given = []
    for at, data in dump:
        if int(at, 16) == 0:
            given.append(b"")
        report.check(int(at, 16) == len(given[-1]), "the offsets of the examples")
        given[-1] += bytes.fromhex(data)
    wanted = [example_packet(), *example_commands()]
    report.check(len(given) == len(wanted), f"{len(given)} examples, and not {len(wanted)}")
    for number, (have, want) in enumerate(zip(given, wanted), 1):
        report.check(have == want, f"the bytes of example {number}: they are {want.hex(' ')}")


def main():
    manual = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else
                          TOP / "docs/specs/openreg.rst").read_text()
    text = "\n".join(path.read_text() for path in HEADERS)
    names = [name for name in constant_names(text)
             if not name.endswith("_H") and name not in
             ("OPENREG_ADDR", "OPENREG_OP")]
    structs = struct_fields(text)
    answer = read_with_compiler(names, structs)
    values = {row[1]: int(row[2]) for row in answer if row[0] == "c"}
    sizes = {row[1]: int(row[2]) for row in answer if row[0] == "s"}
    layout = {name: {} for name in structs}
    for row in answer:
        if row[0] == "f":
            layout[row[1]][row[2]] = (int(row[3]), int(row[4]))
    vector = {row[1]: (int(row[2]), row[3], row[4], "".join(row[5].split()))
              for row in answer if row[0] == "v"}
    access = register_access(text)
    header = {name[len("OPENREG_REG_"):]: (value, access.get(name[len("OPENREG_REG_"):]))
              for name, value in values.items() if name.startswith("OPENREG_REG_")}
    card = {name: (int(offset), ("RO" if write == "RO" else "RW") +
                   ("64" if bits == "64" else ""))
            for kind, name, offset, bits, write in
            (row for row in answer if row[0] == "r")}
    tables = manual_tables(manual.splitlines())
    report = Report()
    check_constants(report, tables, values)
    check_registers(report, tables, header, card)
    check_structs(report, tables, layout, sizes)
    check_vector(report, tables, vector)
    check_names(report, manual, set(names))
    check_examples(report, manual)
    print(f"manual: {report.checks} checks, {report.errors} errors")
    return 1 if report.errors else 0


if __name__ == "__main__":
    sys.exit(main())
