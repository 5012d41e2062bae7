"""From uop-ir to loops to C: rangeify, optimizer, renderer, compiler and runtime."""
