"""How traces are altered by hand. Lines are (kind, side, a, b, c). A function of a place that is not there gives None, so
that alterations can be made of each other: a trace that has no such place is left to the next one.

A line is described by the values that it begins with, where None is any, or by a function of its five values.
"""


def matches(line, wanted):
    if callable(wanted):
        return wanted(*line)
    return all(value is None or value == of_line for value, of_line in zip(wanted, line))


def find(lines, *wanted, after=0):
    """Index of the first line from `after` on that is one of those."""
    if after is None:
        return None
    return next((at for at in range(after, len(lines)) if any(matches(lines[at], one) for one in wanted)), None)


def last(lines, *wanted, before):
    """Index of the last one in front of `before`."""
    if before is None:
        return None
    return next((at for at in reversed(range(before)) if any(matches(lines[at], one) for one in wanted)), None)


def changed(lines, index, **values):
    """With other values in one line: kind, side, a, b, c; or functions of the old ones."""
    if index is None:
        return None
    line = dict(zip(("kind", "side", "a", "b", "c"), lines[index]))
    line.update({name: value(line[name]) if callable(value) else value for name, value in values.items()})
    return [*lines[:index], tuple(line.values()), *lines[index + 1:]]


def without(lines, index):
    return None if index is None else [*lines[:index], *lines[index + 1:]]


def with_behind(lines, index, *more):
    """With more lines behind that one; values that they lack are 0."""
    return None if index is None else [*lines[:index + 1], *((*line, *(0,) * (5 - len(line))) for line in more),
                                       *lines[index + 1:]]
