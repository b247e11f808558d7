"""Charts as SVG: bars for figures beside each other, lines for how a figure changes. They need no other file, and follow the reader's dark or light mode."""

import html
import os

WIDTH, LEFT, RIGHT, ROW = 720, 230, 90, 26
STYLE = """<style>
text { font: 13px system-ui, sans-serif; fill: #24292f } .small { font-size: 11px; fill: #57606a } .title { font-weight: 600; font-size: 14px }
.bar { fill: #2f6fde } .other { fill: #a8b1bd } .line { fill: none; stroke-width: 2.5 } .grid { stroke: #d0d7de; stroke-width: 1 }
.goal { stroke: #cf222e; stroke-width: 1.5; stroke-dasharray: 4 3 } .s0 { stroke: #2f6fde; fill: #2f6fde } .s1 { stroke: #a8b1bd; fill: #a8b1bd }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .small { fill: #9198a1 } .grid { stroke: #3d444d } }
</style>"""


def svg(height, parts, title):
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{html.escape(title)}">'
    return "\n".join([head, STYLE, f'<text class="title" x="8" y="20">{html.escape(title)}</text>', *parts, "</svg>"]) + "\n"


def bars(title, rows, goal=None):
    """Horizontal bars: rows of a label, a figure, its text, and whether it belongs to terse. `goal` is a figure and its label."""
    top = max([figure for _, figure, _, _ in rows] + ([goal[0]] if goal else []) + [1e-9])
    scale = (WIDTH - LEFT - RIGHT) / top
    parts = []
    for place, (label, figure, text, ours) in enumerate(rows):
        y = 40 + place * ROW
        parts.append(f'<text x="{LEFT - 8}" y="{y + 14}" text-anchor="end">{html.escape(label)}</text>')
        parts.append(f'<rect class="{"bar" if ours else "other"}" x="{LEFT}" y="{y}" width="{max(figure * scale, 1):.1f}" height="{ROW - 8}" rx="2"/>')
        parts.append(f'<text x="{LEFT + figure * scale + 6:.1f}" y="{y + 14}">{html.escape(text)}</text>')
    bottom = 40 + len(rows) * ROW
    if goal:
        x = LEFT + goal[0] * scale
        parts.append(f'<line class="goal" x1="{x:.1f}" y1="34" x2="{x:.1f}" y2="{bottom}"/>')
        parts.append(f'<text class="small" x="{x:.1f}" y="{bottom + 14}" text-anchor="middle">{html.escape(goal[1])}</text>')
    return svg(bottom + (24 if goal else 8), parts, title)


def lines(title, unit, labels, series):
    """Lines over evenly spaced labels, from zero: `series` are a name and one figure for each label (or None)."""
    height, left, bottom, top = 280, 70, 232, 50
    highest = max([figure for _, figures in series for figure in figures if figure is not None] + [1e-9])
    step = (WIDTH - left - 30) / max(len(labels) - 1, 1)
    parts = []
    for part in range(5):
        y = bottom - (bottom - top) * part / 4
        parts.append(f'<line class="grid" x1="{left}" y1="{y:.1f}" x2="{WIDTH - 30}" y2="{y:.1f}"/>')
        parts.append(f'<text class="small" x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{short(highest * part / 4)}</text>')
    # No more labels than fit.
    every = -(-len(labels) // 12)
    for place, label in enumerate(labels):
        if place % every == 0:
            parts.append(f'<text class="small" x="{left + place * step:.1f}" y="{bottom + 16}" text-anchor="middle">{html.escape(str(label))}</text>')
    parts.append(f'<text class="small" x="{left}" y="{top - 12}">{html.escape(unit)}</text>')
    for number, (name, figures) in enumerate(series):
        points = [(left + place * step, bottom - (bottom - top) * figure / highest) for place, figure in enumerate(figures) if figure is not None]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline class="line s{number % 2}" style="fill:none" points="{path}"/>')
        parts += [f'<circle class="s{number % 2}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in points]
        parts.append(f'<text x="{left + number * 200}" y="{height - 12}"><tspan class="s{number % 2}">●</tspan> {html.escape(name)}</text>')
    return svg(height, parts, title)


def short(figure):
    """A figure on an axis."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if figure >= size:
            return f"{figure / size:.3g} {letter}"
    return f"{figure:.3g}"


def write(charts, folder, page_folder):
    """Writes charts, pairs of a name and an SVG, and returns the markdown that shows them."""
    os.makedirs(folder, exist_ok=True)
    shown = []
    for name, (title, text) in charts.items():
        file = os.path.join(folder, f"{name}.svg")
        with open(file, "w", encoding="utf-8") as out:
            out.write(text)
        shown.append(f"![{title}]({os.path.relpath(file, page_folder)})")
    return "\n\n".join(shown)
