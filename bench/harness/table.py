"""Figures beside their bars, as a table that reads the same on a terminal and in markdown."""

import dataclasses


@dataclasses.dataclass
class Bar:
    """A promise: a figure with a floor or a ceiling."""

    text: str
    floor: float | None = None
    ceiling: float | None = None
    applies: bool = True

    def verdict(self, figure):
        if not self.applies:
            return "not judged"
        if self.floor is not None and figure < self.floor:
            return "below"
        if self.ceiling is not None and figure > self.ceiling:
            return "above"
        return "ok"


def judged(bars):
    """Bars and their verdicts, for pairs of a bar and a figure."""
    bars = [(bar, figure) for bar, figure in bars if bar]
    return "; ".join(bar.text for bar, _ in bars), "; ".join(bar.verdict(figure) for bar, figure in bars)


def number(value):
    return f"{value:,.0f}"


def micros(seconds):
    return f"{seconds * 1e6:.1f}"


def markdown(head, rows, figures=True):
    """A table whose columns line up, figures to the right."""
    cells = [list(map(str, row)) for row in [head, *rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]

    def line(row):
        right = [figures and column > 0 for column in range(len(row))]
        padded = [cell.rjust(width) if end else cell.ljust(width) for cell, width, end in zip(row, widths, right)]
        return "| " + " | ".join(padded) + " |"

    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([line(cells[0]), rule, *map(line, cells[1:])])


def write(file, part, figures):
    """Replaces what stands between the marks of this part."""
    begin, end = f"<!-- {part} -->", f"<!-- /{part} -->"
    with open(file, encoding="utf-8") as text:
        page = text.read()
    head, rest = page.split(begin, 1)
    tail = rest.split(end, 1)[1]
    with open(file, "w", encoding="utf-8") as text:
        text.write(f"{head}{begin}\n\n{figures}\n\n{end}{tail}")
