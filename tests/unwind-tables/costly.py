#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""costly.py rows|turns|gaps|large|code FILE [FUNCTIONS] - files that once took a parser many seconds, or that
take much room:
rows: 60,000 rows with one expression of 30,000 bytes
turns: the same, but it depends on the address, and the state is another one in each row
gaps: 10,000 gaps between functions, in a sparse file
large: 400,000 functions, or so many, of three rows, in no good order
code: 30,000 functions, or so many, of assembly without any, whose rules are found by their instructions"""
import struct
import sys

BASE, CODE, PAGE = 0x400000, 0x1000, 0x1000


def uleb(n):
    out = b""
    while n >= 0x80:
        out += bytes([n & 0x7f | 0x80])
        n >>= 7
    return out + bytes([n])


def record(body):
    body += b"\0" * (-(len(body) + 4) % 8)
    return struct.pack("<I", len(body)) + body


def main():
    kind, path = sys.argv[1:3]
    functions = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    cie = record(struct.pack("<I", 0) + b"\x01zR\0\x01\x78\x10\x01\x00\x0c\x07\x08\x90\x01")
    code_len, fdes, code = 60016, [], b""
    if kind == "gaps":
        fdes = [(CODE + 5120 * i, 16, b"") for i in range(10000)]
        code_len = 5120 * len(fdes)
    elif kind == "code":
        # push %rbx; sub $16,%rsp; test %rdi,%rdi; je over; call the next one; over: add $16,%rsp; pop %rbx; ret
        code = bytes.fromhex("53 4883ec10 4885ff 7405 e811000000 4883c410 5b c3").ljust(32, b"\xcc")
        code_len = len(code) * (functions or 30000)
        fdes = [(CODE, 16, b"")]
    elif kind == "large":
        functions = functions or 400000
        code_len = 16 * functions
        fdes = [(CODE + code_len - 16 * i, 16, b"\x41\x0e\x10\x42\x0e\x18") for i in range(1, functions + 1)]
    else:
        expression = b"\x77\x08"
        rows = b"\x41" * 60000
        if kind == "turns":
            expression += b"\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22"
            rows = b"\x07\x06\x41\x08\x06\x41" * 30000
        expression = b"\x96" * (30000 - len(expression)) + expression
        fdes = [(CODE, code_len, b"\x0f" + uleb(len(expression)) + expression + rows)]
    frames = bytearray(cie)
    for start, length, program in fdes:
        frames += record(struct.pack("<IQQB", len(frames) + 4, BASE + start, length, 0) + program)
    frames += struct.pack("<I", 0)
    at = (CODE + code_len + PAGE - 1) & -PAGE
    header = b"\x01\x1c\xff\xff" + struct.pack("<q", at - 0x204)
    segments = [(1, 4, 0, PAGE), (1, 5, CODE, code_len), (1, 4, at, len(frames)),
                (0x6474e550, 4, 0x200, len(header))]
    with open(path, "wb") as file:
        file.write(b"\x7fELF\x02\x01\x01" + bytes(9) +
                   struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, BASE + CODE, 64, 0, 0, 64, 56,
                               len(segments), 64, 0, 0))
        for what, flags, offset, length in segments:
            file.write(struct.pack("<IIQQQQQQ", what, flags, offset, BASE + offset,
                                   BASE + offset, length, length, PAGE))
        file.seek(0x200)
        file.write(header)
        file.seek(CODE)
        file.write(code * (code_len // 32))
        file.seek(at)
        file.write(frames)


main()
