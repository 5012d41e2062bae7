"""Names in C: which of a program's own names may stand in its text,
and what stands there for the others. Week 2.
"""

from __future__ import annotations

import re

#: Words of C and C++, of later versions too, and of the headers that programs include, that are no names.
KEYWORDS = re.compile(
    "auto|break|case|char|const|continue|default|do|double|else|enum|extern|float|for|goto|if|inline|int|long|main|"
    "register|restrict|return|short|signed|sizeof|static|struct|switch|typedef|union|unsigned|void|volatile|while|"
    "asm|bool|true|false|errno|stdin|stdout|stderr|linux|unix|alignas|alignof|constexpr|nullptr|static_assert|"
    "thread_local|typeof|typeof_unqual|and|and_eq|bitand|bitor|catch|class|compl|concept|consteval|constinit|const_cast|"
    "co_await|co_return|co_yield|decltype|delete|dynamic_cast|explicit|export|friend|mutable|namespace|new|noexcept|not|"
    "not_eq|operator|or|or_eq|private|protected|public|reinterpret_cast|requires|static_cast|template|this|throw|try|"
    "typeid|typename|using|virtual|xor|xor_eq"
)
#: Names that the renderer gives: of memory, loops and values.
OURS = re.compile(r"buffers|scalars|(data|buf|acc|val|[a-z]*idx)\d+")
#: Names of helpers, types and macros have an underscore, a capital or a letter behind a digit.
PLAIN = re.compile(r"[a-z]+\d*")


def scalar_name(name: str, place: int) -> str:
    """The name in a kernel's text of its scalar at a place: its own where nothing else can have it."""
    if PLAIN.fullmatch(name) and not KEYWORDS.fullmatch(name) and not OURS.fullmatch(name):
        return name
    return f"arg{place}_{identifier(name)}"


def identifier(name: str) -> str:
    """A name with what C does not take in one replaced; to be put behind a prefix."""
    return re.sub(r"[^A-Za-z0-9_]", "_", name)
