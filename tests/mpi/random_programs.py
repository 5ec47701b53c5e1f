# SPDX-License-Identifier: Apache-2.0
"""Random MPI programs in C, to compare the classes of their allocations with what their ranks do.

Each program ends on all ranks and cannot deadlock. Statements stand in *common* code, which all ranks execute
equally often, or in other code. Collective calls stand in common code only, whose conditions use constants and
the variables `c0` and `c1`: these get values only in common code, from constants or from collective calls.
All numbers are `unsigned`, and initialised. Pointers always point to variables that live.
"""

import random

PRELUDE = """#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define W MPI_COMM_WORLD
typedef unsigned number;
static number total = 1;
#define PROBE(n) (total = total * 31 + (number)(n), free(malloc((number)(n) % 61 + 1)))
struct node { number x; number y; number *p; struct node *next; };
union mixed { number n; unsigned char bytes[4]; float f; };
struct small { number *p; number n; };
static number *must(number bytes) {
  number *made = calloc(1, bytes % 61 + 4);
  if (made == NULL) exit(1);
  return made;
}
static number *filled(number bytes, number value, int twice) {
  number *made = must(bytes);
  if (twice) { free(made); made = must(bytes + 1); }
  *made = value;
  return made;
}
static void set(number *to, number value) { *to = value; }
static number *either(number which, number *a, number *b) { return which & 1 ? a : b; }
static void exchange(number **a, number **b) { number *kept = *a; *a = *b; *b = kept; }
static number add(number a, number b) { return a + b; }
static number first(number a, number b) { return b ? a : a + 0 * b; }
static number (*const functions[2])(number, number) = {add, first};
static struct small small_of(number *p, number n) { struct small made = {p, n}; return made; }
static number below(int depth, number value) { return depth <= 0 ? value : below(depth - 1, value + 1); }
static number last_of(int count, ...) {
  va_list rest;
  va_start(rest, count);
  number value = 0;
  while (count-- > 0) value = va_arg(rest, number);
  va_end(rest);
  return value;
}
"""

VALUES = ["a", "b", "d", "e"]
STATE = VALUES + ["v[0]", "v[1]", "v[2]", "v[3]", "*p", "*q", "m.x", "k.y", "np->x", "np->y", "*np->p", "*h", "*h4", "G0", "G1", "S0"]


class Writer:
    """Writes one function and its helpers."""

    def __init__(self, source, name, waits):
        self.random = source
        self.name = name
        self.rank_share = source.choice([0, 0.03, 0.03, 0.08, 0.2])
        self.waits = waits
        self.labels = 0
        self.helpers = []  # (name, is common)
        self.in_helper = False

    def pick(self, *choices):
        return self.random.choice(choices)

    def chance(self, share):
        return self.random.random() < share

    # Expressions

    def common_value(self):
        loops = self.common_counters
        choices = [str(self.random.randrange(5)), "c0", "c1", "size", "(number)argc"] + loops + loops
        return self.random.choice(choices)

    def common_condition(self):
        a, b = self.common_value(), self.common_value()
        return self.pick(f"{a} > {b}", f"({a} + {b}) & 1", f"{a} % 3 == {b} % 2", f"{a} != 2 && {b} < 3")

    def variable(self):
        found = self.random.choice(STATE + ["v[{}]", "w[{}].x", "*w[{}].p"])
        return found.format(f"{self.value(0)} & 3" if found[0] == "v" else f"{self.value(0)} & 1")

    def value(self, depth=2):
        if self.chance(self.rank_share):
            return self.pick("rank", "(rank & 1)", "(rank == 0)")
        if depth == 0:
            return self.random.choice(VALUES + self.counters + [self.common_value(), str(self.random.randrange(6))])
        a = self.value(depth - 1) if self.chance(0.5) else self.variable()
        b = self.value(depth - 1)
        kind = self.random.randrange(14)
        if kind < 5:
            return a
        if kind < 9:
            return f"({a} {self.pick('+', '-', '*', '^', '&', '|')} {b})"
        if kind == 9:
            return f"({a} {self.pick('<', '==', '>=', '&&', '||')} {b})"
        if kind == 10:
            return f"({self.value(0)} ? {a} : {b})"
        if kind == 11:
            return f"{self.pick('add', 'first', 'functions[' + self.value(0) + ' & 1]')}({a}, {b})"
        if kind == 12:
            return f"below({self.common_value()} % 3, {a})"
        return self.pick(f"({a} >> 1)", f"last_of(2, {a}, {b})")

    def condition(self):
        return self.pick(self.value(1), f"{self.value(1)} > {self.value(0)}", f"({self.value(1)} & 3) == 1")

    def place(self):
        """The address of a number that lives as long as the function and its caller's data."""
        if self.in_helper:  # may be stored in the caller's data
            return self.pick("&G0", "&G1", "&S0", "p", "q", "np->p")
        choices = ["&a", "&b", "&d", "&e", "&G0", "&G1", "&S0", "&m.x", "&k.y", "&np->x", "p", "q", "h"]
        return self.random.choice(choices + [f"&v[{self.value(0)} & 3]", f"&w[{self.value(0)} & 1].x"])

    def pointer(self):
        a, b = self.place(), self.place()
        return self.pick(a, a, f"({self.value(0)} & 1 ? {a} : {b})", f"either({self.value(0)}, {a}, {b})")

    # Statements

    def block(self, depth, common, way_out, count=None):
        return [line for _ in range(count or self.random.randrange(1, 4)) for line in self.statement(depth, common, way_out)]

    def statement(self, depth, common, way_out):
        if depth > 0 and self.chance(0.4):
            return self.random.choice([self.branch, self.branch, self.loop, self.loop, self.choice, self.jump])(depth, common, way_out)
        if way_out and self.chance(0.1):
            return [f"if ({self.common_condition() if common else self.condition()}) {self.random.choice(way_out)};"]
        if common and self.chance(0.3):
            return self.collective()
        if self.helpers and self.chance(0.12):
            return self.call(common)
        if self.chance(0.25):
            return self.arms(depth, common) if self.chance(0.15) else self.allocation()
        if common and self.waits and self.chance(0.06):
            return self.unequal() if self.waits == "unequal" and self.chance(0.5) else self.chain()
        if common and self.chance(0.2):
            return [f"{self.pick('c0', 'c1')} = {self.common_value()} + {self.common_value()};"]
        return self.assignment()

    def assignment(self):
        kind = self.random.randrange(17)
        value = self.value()
        if kind < 6:
            return [f"{self.variable()} {self.pick('=', '=', '=', '+=', '^=')} {value};"]
        if kind < 8:
            return [f"{self.pick('p', 'q', 'm.p', 'np->p' if self.in_helper else 'w[' + self.value(0) + ' & 1].p')} = {self.pointer()};"]
        inner = {
            8: f"set({self.pointer()}, {value});",
            9: "exchange(&p, &q);" if self.in_helper else self.pick("exchange(&p, &q);", "exchange(&p, &m.p);", "pp = &p;", "*pp = q;"),
            10: "np = np->next;",
            11: self.pick("k = m;", f"w[{self.value(0)} & 1] = k;", f"m = w[{self.value(0)} & 1];", "memcpy(&k, &w[0], sizeof k);"),
            12: self.pick(f"memset(v, {self.value(0)} & 1, sizeof v);", "memcpy(v, v + 2, 8);", f"memcpy(&a, &v[{self.value(0)} & 3], 4);"),
            13: f"u.n = {value}; a = u.bytes[{self.value(0)} & 3]; u.bytes[1] = (unsigned char)b;",
            14: f"sprintf(text, \"%u\", {value} % 1000); d = (number)atoi(text);",
            15: f"s = small_of({self.pointer()}, {value}); *s.p = s.n;",
            16: self.pick(f"__sync_fetch_and_add({self.pointer()}, {value});", f"kept = (unsigned long){self.place()}; *(number *)kept = {value};",
                          "q = __atomic_exchange_n(&p, q, __ATOMIC_SEQ_CST);", "a = memcmp(&p, &q, sizeof p) < 0;",
                          "for (unsigned at = 0; at < sizeof q; at++) ((char *)&q)[at] = ((char *)&p)[at];",
                          f"{{ int letters = 0; sprintf(text, \"%*u%n\", (int)({value} % 20) + 1, 7u, &letters); d = (number)letters; }}"),
        }[kind]
        return [inner]

    def allocation(self):
        if self.chance(0.6):
            return [f"PROBE({self.value()});"]
        choices = [
            f"free(filled({self.value()}, {self.value(0)}, {self.pick('0', '1', 'argc > 1')}));",
            f"{{ number *t = must({self.value()}); *t = {self.value(0)}; a += *t; free(t); }}",
            f"if (h2 == NULL) {{ h2 = must({self.value(1)}); }} else {{ free(h2); h2 = NULL; }}",
            f"free(h3); h3 = NULL; if ({self.condition()}) h3 = filled({self.value(0)}, {self.value(0)}, 0); b = h3 ? *h3 : 1;",
            f"h4 = realloc(h4, (number){self.value(1)} % 61 + 4);",
            f"sprintf(text, \"%u\", {self.value(1)} % 1000); {{ char *t = strdup(text); e = (number)atoi(t); free(t); }}",
        ]
        return [self.random.choice(choices)]

    def arms(self, depth, common):
        """A branch whose arms allocate, most often the same size."""
        size = self.pick("8", f"{self.value(0)} % 61 + 4", f"(number){self.value(1)} % 61 + 4", f"({self.variable()} & 31) * sizeof(number) + 4")
        conditions = [self.common_condition() if common and self.chance(0.3) else self.condition() for _ in range(self.random.randrange(1, 4))]
        texts = []
        for _ in range(len(conditions) + 1):
            before = self.assignment() if self.chance(0.1) else []
            call = f"t = malloc({size if self.chance(0.9) else self.value(0) + ' % 61 + 8'});"
            own = call if self.chance(0.9) else f"t = calloc(1, {size});"
            after = self.block(depth - 1, False, [], 1) if depth > 0 and self.chance(0.4) else []
            texts.append([*before, own, f"*t = {self.value(0)};", *after])
        lines = ["{ number *t;"]
        if self.chance(0.3):
            lines.append(f"switch ({self.value(1)} % {len(texts)}) {{")
            for i, text in enumerate(texts):
                lines += [f"case {i}:" if i + 1 < len(texts) else "default:", *text, "break;"]
        else:
            for condition, text in zip(conditions, texts):
                lines += [f"if ({condition}) {{", *text, "} else {"]
            lines += [*texts[-1], *(["}"] * (len(conditions) - 1))]
        return [*lines, "}", f"{self.pick('a', 'd')} ^= *t; free(t); }}"]

    def chain(self):
        """Each rank waits for a message of the rank before it, and lets the next one go on after common code without collective calls."""
        return [
            *(["MPI_Barrier(W);"] if self.chance(0.5) else []),
            "if (rank > 0) MPI_Recv(&t0, 1, MPI_UNSIGNED, (int)rank - 1, 3, W, MPI_STATUS_IGNORE);",
            f"PROBE({self.common_value()});",
            *self.allocation(),
            "if (rank + 1 < size) MPI_Send(&t0, 1, MPI_UNSIGNED, (int)rank + 1, 3, W);",
        ]

    def unequal(self):
        """Barriers that match, although they stand in different places of the source."""
        condition = self.pick("rank == 0", "rank & 1", f"rank == {self.common_value()}")
        return [
            f"t = {condition};",
            "if (t) MPI_Barrier(W);",
            *(["MPI_Barrier(W);"] if self.chance(0.5) else []),
            "{ int after = !t;",
            *(line for _ in range(2) for line in self.allocation()),
            "if (after) MPI_Barrier(W); }",
        ]

    def collective(self):
        world = self.pick("W", "W", "W", "same", "same", "part")
        to = self.pick("a", "b", "d", "e", "c0", "c1", "v[0]", "v[1]", "m.x", "G0") if world != "part" else self.pick("a", "b", "v[2]")
        send = f"t0 = {self.value()};"
        root = f"(int)({self.common_value()} % size)" if world != "part" else "0"
        reduced = self.pick("MPI_SUM", "MPI_MAX", "MPI_BXOR")
        choices = [
            f"MPI_Bcast(&{to}, 1, MPI_UNSIGNED, {root}, {world});",
            f"MPI_Allreduce(&t0, &{to}, 1, MPI_UNSIGNED, {reduced}, {world});",
            f"MPI_Allreduce(MPI_IN_PLACE, {self.pick('v', '&a')}, {self.pick('1', '(int)(c0 % 2)')}, MPI_UNSIGNED, {reduced}, {world});",
            f"MPI_Bcast({self.pick('v', 'v + 1')}, {self.pick('2', '3', '(int)(c1 % 3)')}, MPI_UNSIGNED, {root}, {world});",
            f"MPI_Bcast({self.pick('v, 16', '&u, sizeof u')}, MPI_BYTE, {root}, {world}); e = u.n;",
            f"t1 = {self.value(0)}; MPI_Reduce(&t0, &t1, 1, MPI_UNSIGNED, {reduced}, {root}, {world}); b = t1;",
            f"MPI_Scan(&t0, &{self.pick('a', 'v[3]')}, 1, MPI_UNSIGNED, {reduced}, W);",
            f"MPI_Allgather(&t0, 1, MPI_UNSIGNED, all, 1, MPI_UNSIGNED, W); {self.pick('a', 'd')} = all[{self.value(0)} % size];",
            f"MPI_Gather(&t0, 1, MPI_UNSIGNED, all, 1, MPI_UNSIGNED, {root if world != 'part' else '0'}, W); d = all[0];",
            "MPI_Sendrecv(&t0, 1, MPI_UNSIGNED, (int)((rank + 1) % size), 0, &t1, 1, MPI_UNSIGNED, (int)((rank + size - 1) % size), 0, W, "
            f"MPI_STATUS_IGNORE); {self.pick('a', 'v[0]', '*p')} = t1;",
            "MPI_Comm_free(&part); MPI_Comm_split(W, (int)(" + self.value() + " & 1), (int)rank, &part);",
            "MPI_Comm_free(&same); MPI_Comm_dup(W, &same);",
            *(["MPI_Barrier(W);", f"MPI_Barrier({world});"] if self.waits else []),
            f"MPI_Comm_size({world}, &t); {self.pick('b', 'e')} = (number)t;",
            f"MPI_Comm_rank({world}, &t); {self.pick('b', 'e') if self.chance(self.rank_share * 4) else 't0'} = (number)t;",
        ]
        return [send, self.random.choice(choices)]

    def call(self, common):
        usable = [name for name, is_common in self.helpers if common or not is_common]
        if not usable or self.loop_depth > 1:
            return self.assignment()
        depth = self.pick("1", "2") if not self.in_helper else "depth - 1"
        called = self.random.choice(usable)
        if len(usable) > 1 and not any(is_common for _, is_common in self.helpers) and self.chance(0.3):
            called = f"({self.value(0)} & 1 ? {usable[0]} : {usable[1]})"
        # A helper in common code changes c0 and c1 of its own only.
        return [f"{self.pick('a', 'b', 'd')} = {called}(rank, size, argc, {self.value(1)}, {self.place()}, np, {depth}, same);"]

    def branch(self, depth, common, way_out):
        stays = common and self.chance(0.5)
        condition = self.common_condition() if stays else self.condition()
        inner_out = way_out if stays or not common else []
        lines = [f"if ({condition}) {{", *self.block(depth - 1, stays, inner_out)]
        if self.chance(0.5):
            lines += ["} else {", *self.block(depth - 1, stays, inner_out)]
        return [*lines, "}"]

    def choice(self, depth, common, way_out):
        stays = common and self.chance(0.5)
        inner_out = way_out if stays or not common else []
        lines = [f"switch ({self.common_value() if stays else self.value(1)} & 3) {{"]
        for case in ("case 0:", "case 1:", self.pick("case 2:", "default:")):
            lines += [case, *self.block(depth - 1, stays, [way for way in inner_out if way != "break"], 1), *(["break;"] if self.chance(0.6) else [])]
        return [*lines, "}"]

    def loop(self, depth, common, way_out):
        stays = common and self.chance(0.5)
        self.labels += 1
        i = f"i{self.labels}"
        bound = self.common_value() if stays else self.value(1)
        goes_on = self.common_condition() if stays else self.condition()
        kept = [way for way in (way_out if stays or not common else []) if way not in ("break", "continue")]
        self.counters.append(i)
        self.common_counters += [i] if stays else []
        self.loop_depth += 1
        body = self.block(depth - 1, stays, [*kept, "break", "continue"])
        self.loop_depth -= 1
        self.common_counters = [each for each in self.common_counters if each != i]
        self.declared.append(i)
        kind = self.random.randrange(4)
        if kind == 0:
            return [f"for ({i} = 0; {i} < (number)({bound}) % 4; {i}++) {{", *body, "}"]
        if kind == 1:
            return [f"{i} = 0;", f"while ({i}++ < 3 && ({goes_on})) {{", *body, "}"]
        if kind == 2:
            return [f"{i} = 0;", "do {", *body, f"}} while (++{i} < (number)({bound}) % 4);"]
        if not common and self.chance(0.5):  # a loop with two entries
            return [f"{i} = 0;", f"if ({goes_on}) goto middle{i};", f"while ({i} < (number)({bound}) % 4) {{", *body, f"middle{i}: {i}++;", *self.assignment(), "}"] \
                if "continue;" not in " ".join(body) else [f"for ({i} = 0; {i} < 2; {i}++) {{", *body, "}"]
        return [f"{i} = 0;", f"for (;;) {{ if (++{i} > 3 || ({goes_on})) break;", *body, "}"]

    def jump(self, depth, common, way_out):
        """A block that `goto` leaves."""
        stays = common and self.chance(0.5)
        self.labels += 1
        label = f"out{self.labels}"
        kept = way_out if stays or not common else []
        return ["{", *self.block(depth - 1, stays, [*kept, f"goto {label}", f"goto {label}"], 3), f"}} {label}:;"]

    # Functions

    def body(self, common, depth, probes):
        self.counters, self.common_counters, self.declared, self.loop_depth = [], [], [], 0
        way_out = ["goto end"] if self.chance(0.3) else []
        lines = self.block(depth, common, way_out, self.random.randrange(3, 7))
        declared = "".join(f", {i} = 0" for i in self.declared)
        probed = self.random.sample(STATE, probes)
        return [f"  number i0 = 0{declared};", "  (void)i0;", *("  " + line for line in lines), "end:;", *(f"  PROBE({each});" for each in probed)]

    LOCALS = """  static number S0 = 2;
  number c0 = 1, c1 = 2, a = 3, b = 4, d = 5, e = 6, t0 = 0, t1 = 0, all[64] = {0}, v[4] = {1, 2, 3, 4};
  int t = 0;
  unsigned long kept = 0;
  char text[32] = "7";
  union mixed u = {1};
  (void)all, (void)kept, (void)t, (void)t0, (void)t1, (void)text, (void)u, (void)c0, (void)c1;
"""

    def helper(self, number, common):
        name = f"{self.name}h{number}"
        self.in_helper = True
        lines = self.body(common, 2, 2)
        self.in_helper = False
        head = f"static number {name}(number rank, number size, int argc, number x, number *p, struct node *np, int depth, MPI_Comm same)"
        text = f"{head} {{\n  if (depth <= 0) return x;\n{self.LOCALS}"
        text += "  number *q = p, *h = p, *h2 = NULL, *h3 = NULL, *h4 = must(1);\n  struct node m = *np, k = *np, w[2] = {m, k};\n  struct small s = {p, 0};\n  (void)s, (void)q;\n"
        text += "  MPI_Comm part;\n  MPI_Comm_dup(same, &part);\n" if common else ""
        text += "  a = x;\n" + "\n".join(lines) + "\n  number result = a + b;\n  free(h2);\n  free(h3);\n  free(h4);\n"
        text += "  MPI_Comm_free(&part);\n" if common else ""
        return head + ";\n", text.replace("MPI_Comm_free(&same); MPI_Comm_dup(W, &same);", ";") + "  return result;\n}\n"

    def function(self):
        """The text of the function and its helpers."""
        self.helpers = [(f"{self.name}h{i}", self.chance(0.4)) for i in range(self.random.randrange(3))]
        helpers = [self.helper(i, is_common) for i, (_, is_common) in enumerate(self.helpers)]
        lines = self.body(True, 3, 7)
        text = f"static number {self.name}G0 = 1, {self.name}G1 = 2;\n#define G0 {self.name}G0\n#define G1 {self.name}G1\n"
        text += "".join(head for head, _ in helpers) + "".join(body for _, body in helpers)
        text += f"static void {self.name}(number rank, number size, int argc) {{\n{self.LOCALS}"
        text += "  struct node m = {1, 2, &a, &m}, k = {3, 4, &b, &m}, w[2] = {k, k}, *np = &k;\n  struct small s = {&a, 1};\n  m.next = &k;\n"
        text += "  number *p = &a, *q = &b, *h = must(8), **pp = &p, *h2 = NULL, *h3 = NULL, *h4 = must(2);\n  (void)pp, (void)s, (void)q;\n"
        text += "  MPI_Comm same, part;\n  MPI_Comm_dup(W, &same);\n  MPI_Comm_dup(W, &part);\n"
        text += "\n".join(lines) + "\n  free(h);\n  free(h2);\n  free(h3);\n  free(h4);\n"
        return text + "  MPI_Comm_free(&same);\n  MPI_Comm_free(&part);\n}\n#undef G0\n#undef G1\n"


def program(seed, functions, waits=None):
    """The text of a program whose `main` calls the given number of random functions in turn.

    `waits`: "chains" of ranks that wait for each other's messages; or "unequal", also barriers in code that is not common.
    """
    source = random.Random(seed)
    text = PRELUDE
    for i in range(functions):
        text += Writer(source, f"f{i}", waits).function()
    calls = "".join(f"  f{i}((number)rank, (number)size, argc);\n" for i in range(functions))
    return (
        f"{text}int main(int argc, char **argv) {{\n  int rank, size;\n  MPI_Init(&argc, &argv);\n"
        f"  MPI_Comm_rank(W, &rank);\n  MPI_Comm_size(W, &size);\n{calls}"
        "  printf(\"%d %u\\n\", rank, total);\n  MPI_Finalize();\n  return 0;\n}\n"
    )
