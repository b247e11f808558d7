"""Figures and thresholds as a markdown table with aligned columns."""

import dataclasses
import os

from harness.servers import Failure


@dataclasses.dataclass
class Threshold:
    """A minimum or maximum for a figure."""

    text: str
    floor: float | None = None
    ceiling: float | None = None
    applies: bool = True

    def result(self, figure):
        if not self.applies:
            return "not applicable"
        if self.floor is not None and figure < self.floor:
            return "below"
        if self.ceiling is not None and figure > self.ceiling:
            return "above"
        return "ok"


def evaluate(thresholds):
    """Texts and results for pairs of a threshold and a figure."""
    thresholds = [(threshold, figure) for threshold, figure in thresholds if threshold]
    return "; ".join(threshold.text for threshold, _ in thresholds), "; ".join(threshold.result(figure) for threshold, figure in thresholds)


def number(value):
    return f"{value:,.0f}"


def micros(seconds):
    return f"{seconds * 1e6:.1f}"


def markdown(head, rows, figures=True):
    """A table with aligned columns, figures to the right."""
    cells = [list(map(str, row)) for row in [head, *rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]

    def line(row):
        right = [figures and column > 0 for column in range(len(row))]
        padded = [cell.rjust(width) if end else cell.ljust(width) for cell, width, end in zip(row, widths, right)]
        return "| " + " | ".join(padded) + " |"

    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([line(cells[0]), rule, *map(line, cells[1:])])


def check(file, part):
    """Fails unless the page has the markers of this part. Called before measuring."""
    with open(file, encoding="utf-8") as text:
        page = text.read()
    for marker in (f"<!-- {part} -->", f"<!-- /{part} -->"):
        if page.count(marker) != 1:
            raise Failure(f"{os.path.relpath(file)} must have the line {marker} once")


def write(file, part, figures):
    """Replaces the text between the markers of this part."""
    begin, end = f"<!-- {part} -->", f"<!-- /{part} -->"
    with open(file, encoding="utf-8") as text:
        page = text.read()
    head, rest = page.split(begin, 1)
    tail = rest.split(end, 1)[1]
    with open(file, "w", encoding="utf-8") as text:
        text.write(f"{head}{begin}\n\n{figures}\n\n{end}{tail}")
