"""The program and the Makefile beside an exported model: it runs the model on files. Week 6."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from string import Template

from .export_model import Model, Scalar, Tensor, c_type
from .export_text import identifier_of
from .program_text import (
    PROGRAM_FLAGS,
    VALUE_OF,
    c_string,
    comment,
    definitions,
    label_of,
    printer,
    range_of,
    reader,
)

MAIN = Template("""\
/* Runs $name on files:

       ./$name$usage

   A file has the bytes of a tensor, row-major, and nothing else. Where no output goes to a file, all are printed, floats
   in hexadecimal. weights=FILE takes other weights than $name.bin. */

#include "$name.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

$helpers

/* The memory that an argument NAME=FILE means, and its file; NULL where the table has no such name. */
static const ${name}_tensor *named(const ${name}_tensor *table, const char *argument, const char **file) {
    for (; table->name != NULL; table++) {
        if ((*file = value_of(argument, table->name)) != NULL) {
            return table;
        }
    }
    return NULL;
}

static int fail(const char *what, const char *why) {
    fprintf(stderr, "$name: %s: %s\\n", what, why);
    return 1;
}

/* Whether a file has been read, and has the size of the tensor. */
static bool read_file(const char *path, void *data, size_t bytes) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return false;
    }
    errno = EINVAL;
    const bool whole = fread(data, 1, bytes, file) == bytes && fgetc(file) == EOF;
    fclose(file);
    return whole;
}

static bool write_file(const char *path, const void *data, size_t bytes) {
    FILE *file = fopen(path, "wb");
    if (file == NULL) {
        return false;
    }
    const bool whole = fwrite(data, 1, bytes, file) == bytes;
    return fclose(file) == 0 && whole;
}

int main(int argc, char **argv) {
    const ${name}_tensor *tensor;
    const char *file, *weights = "$name.bin";
    bool printing = true;
    bool has[$inputs] = {false};
$variables    for (int i = 1; i < argc; i++) {
        weights = (file = value_of(argv[i], "weights")) != NULL ? file : weights;
    }
    ${name}_model *model = ${name}_load(weights);
    if (model == NULL) {
        return fail(weights, strerror(errno));
    }
    for (int i = 1; i < argc; i++) {
        if ((tensor = named(${name}_inputs, argv[i], &file)) != NULL) {
            if (!read_file(file, ${name}_data(model, tensor), tensor->bytes)) {
                return fail(file, errno == EINVAL ? "not of the size of the input" : strerror(errno));
            }
            has[tensor - ${name}_inputs] = true;
        } else if (named(${name}_outputs, argv[i], &file) != NULL) {
            printing = false;
$scalars        } else if (value_of(argv[i], "weights") == NULL) {
            return fail(argv[i], "no argument with a value that it may have");
        }
    }
    for (tensor = ${name}_inputs; tensor->name != NULL; tensor++) {
        if (!has[tensor - ${name}_inputs]) {
            return fail(tensor->name, "give it as NAME=FILE");
        }
    }
$given    if (${name}_run($arguments) != 0) {
        return fail("run", "a variable is out of its bounds");
    }
    for (int i = 1; i < argc; i++) {
        tensor = named(${name}_outputs, argv[i], &file);
        if (tensor != NULL && !write_file(file, ${name}_data(model, tensor), tensor->bytes)) {
            return fail(file, strerror(errno));
        }
    }
    if (printing) {
$prints    }
    ${name}_free(model);
    return fflush(stdout) == 0 ? 0 : 1;
}
""")

MAKEFILE = Template("""\
# Builds lib$name.a and ./$name. For another machine than this one: make CFLAGS="-O2 -march=..."; without threads:
# make OPENMP=. The flags of EXACT are those that keep the bits.

CFLAGS = -O2 -march=native
EXACT = $flags
OPENMP := $$(shell out=$$$$(mktemp) && echo 'int main(void) { return 0; }' | \\
	$$(CC) -fopenmp -x c - -o $$$$out 2> /dev/null && echo -fopenmp; rm -f $$$$out)

$name: main.o lib$name.a
	$$(CC) $$(CFLAGS) $$(EXACT) $$(OPENMP) $$(LDFLAGS) main.o lib$name.a -lm -o $$@

lib$name.a: $name.o
	$$(AR) rcs $$@ $name.o

$name.o: $name.c $name.h
	$$(CC) $$(CFLAGS) $$(EXACT) $$(OPENMP) -c $name.c -o $$@

main.o: main.c $name.h
	$$(CC) $$(CFLAGS) $$(EXACT) $$(OPENMP) -c main.c -o $$@

clean:
	rm -f $name lib$name.a $name.o main.o

.PHONY: clean
""")


def makefile(model: Model) -> str:
    """The text of the Makefile."""
    flags = [flag for flag in PROGRAM_FLAGS if not flag.startswith("-O")]
    return MAKEFILE.substitute(name=model.name, flags=" ".join(flags))


def program(model: Model) -> str:
    """The text of main.c."""
    reads = [reader(s.param, "text", _variable(s)) for s in model.scalars]
    helpers = definitions(
        [VALUE_OF], *(found for found, _ in reads), *(printer(t.param.dtype) for t in model.outputs)
    )
    usage = [f" {t.name}=FILE" for t in model.inputs] + [f" {s.name}=..." for s in model.scalars]
    usage += [f" [{t.name}=FILE]" for t in model.outputs]
    return MAIN.substitute(
        name=model.name,
        usage=comment("".join(usage)),
        helpers="\n\n".join(helpers),
        inputs=max(len(model.inputs), 1),
        variables="".join(_variables(model)),
        scalars="".join(_scalar(s, read) for s, (_, read) in zip(model.scalars, reads, strict=True)),
        given="".join(map(_given, model.scalars)),
        arguments=", ".join(["model", *map(_variable, model.scalars)]),
        prints="".join(_print(model, t) for t in model.outputs),
    )


def _variable(s: Scalar) -> str:
    return f"given_{s.member}"


def _variables(model: Model) -> Iterator[str]:
    if model.scalars:
        yield "    const char *text;\n"
    for s in model.scalars:
        yield f"    {c_type(s)} {_variable(s)} = 0;\n    bool has_{s.member} = false;\n"


def _scalar(s: Scalar, read: str) -> str:
    test = f"(text = value_of(argv[i], {c_string(s.name)})) != NULL && {read}"
    return f"        }} else if ({test}) {{\n            has_{s.member} = true;\n"


def _given(s: Scalar) -> str:
    what = c_string(f"give it as {s.name}=..., {range_of(s.param)}")
    return f"    if (!has_{s.member}) {{\n        return fail({c_string(s.name)}, {what});\n    }}\n"


def _print(model: Model, t: Tensor) -> str:
    where = f"{model.name}_output_{identifier_of(t)}(model), {prod(t.shape)}, {t.shape[-1] if t.shape else 1}"
    return f"        print_{t.param.dtype}({c_string(label_of(t.name, t.shape, t.param.dtype))}, {where});\n"
