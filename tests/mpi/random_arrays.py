# SPDX-License-Identifier: Apache-2.0
"""Random MPI programs whose functions use arrays of their own. Each rank prints a checksum of what it read."""

import random

TYPES = ("char", "unsigned char", "short", "int", "unsigned", "long", "float", "double")
HEADER = """#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static void* kept[64];
static void* volatile seen;
__attribute__((noinline)) static unsigned look(void const* bytes) { return *(unsigned char const*)bytes; }
"""


class Function:
    """A function that allocates arrays of one type, works on them and frees them.

    Elements have values from 0 to 99, so that each type can hold them and sums do not depend on rounding.
    """

    def __init__(self, number, choices):
        self.number = number
        self.random = choices
        self.type = choices.choice(TYPES)
        self.structure = choices.choice((None, None, "pair", "triple"))
        self.parts = {None: ("",), "pair": (".a", ".b"), "triple": (".a", ".b[0]", ".b[1]")}[self.structure]
        self.element = self.type if self.structure is None else f"struct {self.structure}{number}"
        self.length = choices.choice(("n", "n + 3", "2 * n", "19", "4"))
        self.arrays = []
        self.lines = []
        self.variables = 0
        self.escapes = choices.random() < 0.15

    def name(self, prefix):
        self.variables += 1
        return f"{prefix}{self.variables}"

    def add(self, text):
        self.lines.append("  " + text)

    def value(self):
        """A number of the rank, as an unsigned expression."""
        return self.random.choice(("s", "s * 5u + i", "i * 3u + rank", "rank * 7u + s", "i"))

    def stored(self, text):
        return f"({self.type})(({text}) % 100u)"

    def part(self):
        return self.random.choice(self.parts)

    def loop(self, body):
        return f"for (unsigned i = 0; i < length; ++i) {body}"

    def allocate(self):
        name = self.name("a")
        self.arrays.append(name)
        if self.random.random() < 0.4:
            self.add(f"{self.element}* {name} = calloc(length, sizeof *{name});")
            return
        self.add(f"{self.element}* {name} = malloc(length * sizeof *{name});")
        if self.random.random() < 0.3:
            self.add(f"if ({name} == NULL) return 1;")
        if self.random.random() < 0.4:
            self.add(f"memset({name}, {self.random.choice((0, 0, 1))}, length * sizeof *{name});")
        else:
            for part in self.parts:
                self.add(self.loop(f"{name}[i]{part} = {self.stored(self.value())};"))

    def step(self, depth=0):
        kind = self.random.choice(("sum", "fill", "random", "walk", "back", "middle", "copy", "exchange", "select", "switch",
                                   "partial", "element", "maybe", "new", "reverse", "some", "nested", "guarded"))
        a, b = self.random.choice(self.arrays), self.random.choice(self.arrays)
        part = self.part()
        p = self.name("p")
        if kind == "sum":
            self.add(self.loop(f"s = s * 3u + (unsigned){a}[i]{part};"))
        elif kind == "fill":
            self.add(self.loop(f"{a}[i]{part} = {self.stored(self.value())};"))
        elif kind == "random":
            self.add(self.loop(f"{a}[(s + i * 7u) % length]{part} = {self.stored(f'(unsigned){b}[(i + s) % length]{part} + i')};"))
        elif kind == "walk":
            end = self.random.choice(("!=", "<"))
            self.add(f"for ({self.element}* {p} = {a}; {p} {end} {a} + length; ++{p}) s += (unsigned)(*{p}){part} * 5u;")
        elif kind == "back":
            self.add(f"for ({self.element}* {p} = {a} + length; {p}-- > {a};) s = s * 7u + (unsigned)(*{p}){part};")
        elif kind == "middle":
            self.add(f"{{ {self.element}* {p} = {a} + length / 2; {p}[-1]{part} = {self.stored(f'(unsigned){p}[1]{part} + s')}; }}")
        elif kind == "copy" and a != b:
            call = self.random.choice(("memcpy", "memmove"))
            first = self.random.choice((0, 1, 2))
            self.add(f"{call}({a} + {first}, {b}, (length - {first}) * sizeof *{a});")
        elif kind == "exchange":
            self.add(f"for (int round = 0; round < 3; ++round) {{ {self.element}* {p} = {a}; {a} = {b}; {b} = {p}; " +
                     self.loop(f"{a}[i]{part} = {self.stored(f'(unsigned){b}[i]{part} * 3u + i')};") + " }")
        elif kind == "select":
            self.add(f"{{ {self.element}* {p} = s % 2u ? {a} : {b} + 1; s += (unsigned){p}[2]{part}; {p}[1] = {p}[0]; }}")
        elif kind == "switch":
            c = self.random.choice(self.arrays)
            self.add(f"{{ {self.element}* {p}; switch ((s + rank) % 3u) {{ case 0: {p} = {a}; break; case 1: {p} = {b} + 2; break; "
                     f"default: {p} = {c}; }} s += (unsigned){p}[1]{part}; {p}[0]{part} = {self.stored('s')}; }}")
        elif kind == "partial":
            self.add(f"memset({a} + 1, 0, (length / 2) * sizeof *{a});")
        elif kind == "element":
            self.add(f"{{ {self.element} {p} = {a}[1]; {a}[1] = {b}[length - 1]; {b}[length - 1] = {p}; }}")
        elif kind == "maybe":
            self.add(f"{{ {self.element}* {p} = NULL; if (s % 3u) {p} = {a}; if ({p} != NULL) s += (unsigned){p}[s % length]{part}; }}")
        elif kind == "new":
            self.add(f"for (int round = 0; round < 3; ++round) {{ {self.element}* {p} = calloc(length, sizeof *{p}); " +
                     self.loop(f"{p}[i]{part} = {self.stored(f'(unsigned){a}[i]{part} + round')};") +
                     f" s += (unsigned){p}[s % length]{part}; " +
                     self.random.choice((f"free({p});", f"if (round != 1) free({p});", f"if (rank % 2) free({p});")) + " }")
        elif kind == "reverse":
            self.add(f"for (int i = (int)length - 1; i >= 0; --i) s = s * 11u + (unsigned){a}[i]{part};")
        elif kind == "some" and depth < 2:
            self.add(f"if ((rank + {self.random.randrange(3)}) % 3 == 0) {{")
            self.step(depth + 1)
            self.add("}")
        elif kind == "nested":
            self.add(f"for (unsigned i = 0; i < length / 4; ++i) for (unsigned j = 0; j < 4; ++j) s = s * 3u + (unsigned){a}[i * 4 + j]{part};")
        elif kind == "guarded":
            self.add(f"for (unsigned i = rank % 5; i + 2 < length; i += 1 + rank % 3) {a}[i]{part} = {self.stored(f'(unsigned){a}[i + 2]{part}')};")

    def escape(self):
        a = self.random.choice(self.arrays)
        self.add(self.random.choice((
            f"s += look({a});",
            f"seen = {a};",
            f"MPI_Bcast({a}, 1, MPI_CHAR, 0, MPI_COMM_WORLD);",
            f"kept[{self.number % 64}] = {a} + 1;",
            f"s += (unsigned)(({a} + 3) - {a});",
            f"s += ((unsigned char*){a})[rank % 2];",
        )))

    def text(self):
        for _ in range(self.random.randrange(1, 4)):
            self.allocate()
        for _ in range(self.random.randrange(2, 7)):
            self.step()
        if self.escapes:
            self.escape()
            self.step()
        freed_early = self.arrays[-1] if self.random.random() < 0.3 else None
        if freed_early:
            self.add(f"if (rank % 2 == 0) free({freed_early});")
            self.arrays.remove(freed_early)
            if self.arrays:
                self.step()
            self.add(f"if (rank % 2 != 0) free({freed_early});")
        for name in self.arrays:
            if self.random.random() < 0.9:
                self.add(f"free({name});")
        inline = self.random.choice(("static", "static inline", "static __attribute__((always_inline)) inline"))
        lines = [f"{inline} unsigned f{self.number}(int rank, unsigned n) {{", f"  unsigned const length = {self.length};",
                 "  unsigned s = rank;", *self.lines, "  return s;", "}"]
        if self.structure:
            fields = {"pair": "a, b", "triple": "a, b[2]"}[self.structure]
            lines.insert(0, f"struct {self.structure}{self.number} {{ {self.type} {fields}; }};")
        return "\n".join(lines)


def program(seed, functions):
    """The text of a program."""
    choices = random.Random(seed)
    parts = [HEADER]
    parts += [Function(number, choices).text() for number in range(functions)]
    calls = "\n".join(f'  s = s * 31u + f{number}(rank, n); printf("%d {number} %u\\n", rank, s);' for number in range(functions))
    parts.append("int main(int argc, char** argv) {\n  int rank;\n  MPI_Init(&argc, &argv);\n"
                 "  MPI_Comm_rank(MPI_COMM_WORLD, &rank);\n  unsigned n = 15 + argc, s = 0;\n"
                 f"{calls}\n  MPI_Finalize();\n  return 0;\n}}\n")
    return "\n".join(parts)
