"""The C of an exported model: its header, and its source with kernels, plan and memory. Week 6."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from string import Template
from textwrap import wrap

from uop_ir import UOp, call_params, dtypes

from .ctext import SCALAR
from .export_model import ALIGNMENT, HEAD, Model, Scalar, Tensor, arguments, c_type
from .generated import remembered
from .program_text import QUIET, c_string, comment, definitions, local, preambles, scalar_bits

COLUMNS = 110

HEADER = Template("""\
/* $name: a model as C. To be linked with -lm, and with -fopenmp where it is built with threads, as make does if it can.

$example
   Memory is row-major and aligned to $alignment bytes; f16 and bf16 are kept as their bits. A model is used by one thread at a
   time; models share nothing. */

#ifndef ${guard}_H
#define ${guard}_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ${name}_model ${name}_model;

/* A new model, its weights from a file or from memory that has the bytes of such a file, all other memory 0. NULL where
   that fails, with errno: EINVAL for weights that are not those of this model. */
${name}_model *${name}_load(const char *path);
${name}_model *${name}_init(const void *weights, size_t bytes);

/* Compute the outputs from the inputs. 0, or EDOM where a variable is out of its bounds: nothing has run then. */
int ${name}_run($run);

/* Give all memory back; nothing is done for NULL. */
void ${name}_free(${name}_model *model);

$accessors

/* The same by name: tables that end with a NULL name. dtype is one of bool, i8 to i64, u8 to u64, f16, bf16, f32, f64. */
typedef struct ${name}_tensor {
    const char *name;
    const char *dtype;
    int rank;
    int64_t shape[$rank];
    size_t bytes;
    size_t offset;
} ${name}_tensor;

extern const ${name}_tensor ${name}_inputs[];
extern const ${name}_tensor ${name}_outputs[];
extern const ${name}_tensor ${name}_weights[];

/* The memory of a tensor of these tables. */
void *${name}_data(${name}_model *model, const ${name}_tensor *tensor);

#ifdef __cplusplus
}
#endif

#endif
""")

MEMORY = Template("""\
/* The memory of a model. The weights come first, as they lie in their file behind its first line. */
struct ${name}_model {
$members
};

#define WEIGHT_BYTES ((size_t)$weights)
_Static_assert(offsetof(struct ${name}_model, scratch) == WEIGHT_BYTES, "weights lie as in their file");

static const char first_line[$head] = $line;""")

FUNCTIONS = Template("""\
${name}_model *${name}_init(const void *weights, size_t bytes) {
    if (bytes != sizeof first_line + WEIGHT_BYTES || memcmp(weights, first_line, sizeof first_line) != 0) {
        errno = EINVAL;
        return NULL;
    }
    ${name}_model *model = aligned_alloc($alignment, sizeof *model);
    if (model != NULL) {
        memset(model, 0, sizeof *model);
        memcpy(model, (const char *)weights + sizeof first_line, WEIGHT_BYTES);
    }
    return model;
}

${name}_model *${name}_load(const char *path) {
    const size_t bytes = sizeof first_line + WEIGHT_BYTES;
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return NULL;
    }
    ${name}_model *model = NULL;
    char *read = malloc(bytes + 1); /* a file that is longer is not ours */
    if (read != NULL) {
        model = ${name}_init(read, fread(read, 1, bytes + 1, file));
    }
    const int error = errno;
    free(read);
    fclose(file);
    errno = error;
    return model;
}

void ${name}_free(${name}_model *model) {
    free(model);
}

void *${name}_data(${name}_model *model, const ${name}_tensor *tensor) {
    return (char *)model + tensor->offset;
}""")


def header(model: Model) -> str:
    """The text of the header: the API, and what inputs and outputs are."""
    tensors = (*model.weights, *model.inputs, *model.outputs)
    return HEADER.substitute(
        name=model.name,
        guard=model.name.upper(),
        alignment=ALIGNMENT,
        example="\n".join(_example(model)),
        run=_run_arguments(model),
        accessors="\n\n".join(_accessors(model)),
        rank=max([1, *(len(t.shape) for t in tensors)]),
    )


def source(model: Model) -> str:
    """The text of the source: kernels, the memory of a model, and the plan as one function."""
    first = [remembered(model.numbers)] if model.computed else []
    kernels = list({kernel.name: kernel for kernel in (*first, *model.kernels)}.values())
    before = preambles(kernels)
    bits = [scalar_bits(s.param, s.member)[0] for s in (*model.scalars, *model.computed)]
    includes = [f"#include <{name}.h>" for name in ("errno", "stdio", "stdlib", "string")]
    parts = [
        f'#include "{model.name}.h"\n\n' + "\n".join(includes),
        QUIET.rstrip(),
        *before,
        *definitions(*bits),
        *map(local, kernels),
        _memory(model),
        *(
            _table(model, kind, tensors)
            for kind, tensors in (
                ("inputs", model.inputs),
                ("outputs", model.outputs),
                ("weights", model.weights),
            )
        ),
        FUNCTIONS.substitute(name=model.name, alignment=ALIGNMENT),
        *(_accessor(model, "input", t) for t in model.inputs),
        *(_accessor(model, "output", t) for t in model.outputs),
        _run(model),
    ]
    return "\n\n".join(parts) + "\n"


# header


def _example(model: Model) -> Iterator[str]:
    name = model.name
    yield f'       {name}_model *model = {name}_load("{name}.bin");'
    for t in model.inputs:
        yield f"       {t.type} *{identifier_of(t)} = {name}_input_{identifier_of(t)}(model);  to be filled: {t.text}"
    yield f"       {name}_run({', '.join(['model', *(s.member for s in model.scalars)])});"
    for t in model.outputs:
        yield f"       const {t.type} *{identifier_of(t)} = {name}_output_{identifier_of(t)}(model);  {t.text}"
    yield f"       {name}_free(model);"
    changing = [t.name for t in model.weights if t.changes]
    if changing:
        yield ""
        said = comment(f"A run changes weights: {', '.join(changing)}.")
        yield from (f"   {line}" for line in wrap(said, COLUMNS))
    yield ""


def identifier_of(tensor: Tensor) -> str:
    """The name of a tensor in C without the prefix that tells what it is."""
    return tensor.member.partition("_")[2]


def _accessors(model: Model) -> Iterator[str]:
    for kind, tensors in (("input", model.inputs), ("output", model.outputs)):
        for t in tensors:
            yield f"/* {kind.capitalize()} {comment(t.name)}: {t.text} */\n{_accessor_head(model, kind, t)};"


def _accessor_head(model: Model, kind: str, t: Tensor) -> str:
    const = "const " if kind == "output" else ""
    return f"{const}{t.type} *{model.name}_{kind}_{identifier_of(t)}({const}{model.name}_model *model)"


def _run_arguments(model: Model) -> str:
    return ", ".join([f"{model.name}_model *model", *(f"{c_type(s)} {s.member}" for s in model.scalars)])


# source


def _accessor(model: Model, kind: str, t: Tensor) -> str:
    return f"{_accessor_head(model, kind, t)} {{\n    return model->{t.place};\n}}"


def _memory(model: Model) -> str:
    members = [
        *map(_member, model.weights),
        f"    _Alignas({ALIGNMENT}) unsigned char scratch[{max(model.plan.arena, 1)}];",
        *map(_member, model.inputs),
        *(_member(t) for t in model.outputs if t.place == t.member),
    ]
    return MEMORY.substitute(
        name=model.name,
        members="\n".join(members),
        weights=model.weight_bytes,
        head=HEAD,
        line=c_string(model.head.rstrip(b"\0").decode()),
    )


def _member(t: Tensor) -> str:
    return f"    _Alignas({ALIGNMENT}) {t.type} {t.member}[{max(t.param.arg.size, 1)}]; /* {t.text} */"


def _table(model: Model, kind: str, tensors: Sequence[Tensor]) -> str:
    lines = [f"const {model.name}_tensor {model.name}_{kind}[] = {{"]
    for t in tensors:
        shape = ", ".join(map(str, t.shape)) or "0"
        place = f"offsetof(struct {model.name}_model, {t.place})"
        name = c_string(t.name)
        lines.append(f'    {{{name}, "{t.param.dtype}", {len(t.shape)}, {{{shape}}}, {t.bytes}, {place}}},')
    return "\n".join([*lines, "    {NULL, NULL, 0, {0}, 0, 0},", "};"])


def _run(model: Model) -> str:
    lines = [f"int {model.name}_run({_run_arguments(model)}) {{"]
    for s in model.scalars:
        if s.param.dtype is dtypes.index:
            lines.append(f"    if ({s.member} < {s.param.arg.min} || {s.member} > {s.param.arg.max}) {{")
            lines += ["        return EDOM;", "    }"]
    used: set[UOp] = set()
    if model.computed:
        given = {s.param: s for s in model.scalars}
        numbers = [given[p] for p in call_params(model.numbers) if p.arg.size is None]
        used.update(s.param for s in numbers)
        places = [s.member.removeprefix("*") for s in model.computed]
        declared = zip(model.computed, places, strict=True)
        lines += [f"    {SCALAR[s.param.dtype]} {place}[1];" for s, place in declared]
        lines += _call(remembered(model.numbers).name, places, numbers)
    for kernel, call in zip(model.kernels, model.plan.calls, strict=True):
        memory, numbers = arguments(model, call)
        used.update(s.param for s in numbers)
        lines += _call(kernel.name, memory, numbers)
    unused = [s.member for s in model.scalars if s.param not in used and s.param.dtype is not dtypes.index]
    lines += [f"    (void){name};" for name in unused]
    if not model.plan.calls:
        lines.append("    (void)model;")
    return "\n".join([*lines, "    return 0;", "}"])


def _call(name: str, memory: Sequence[str], numbers: Sequence[Scalar]) -> list[str]:
    texts = [scalar_bits(s.param, s.member)[1] for s in numbers]
    scalars = f"(const int64_t[]){{{', '.join(texts)}}}" if texts else "NULL"
    whole = f"    {name}((void *const[]){{{', '.join(memory)}}}, {scalars});"
    if len(whole) <= COLUMNS:
        return [whole]
    lines = wrap(", ".join(memory), COLUMNS - 9, break_long_words=False)
    return [f"    {name}((void *const[]){{", *(f"        {line}" for line in lines), f"    }}, {scalars});"]
