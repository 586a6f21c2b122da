#!/usr/bin/python3
"""Draws what a step of lull-train does while a checkpoint is saved, once lazily
and once synchronously, from traces of two runs:

    bench/timeline.py --build DIR --out FILE.svg

The step drawn is one of the quickest quarter, which nothing else on the
machine disturbed. The SVG has colours for light and
for dark pages."""
import argparse
import html
import json
import os
import pathlib
import subprocess
import sys
import tempfile

STEPS = 30
SHAPE = {"layers": 6, "hidden": 384, "heads": 6, "seq": 128, "global-batch": 2,
         "micro-batch": 1, "tp": 2}
TINY = {"layers": 1, "hidden": 32, "heads": 2}
# Lanes from top to bottom: what it is called, lanes of the trace, colour.
LANES = [("forward", ("forward",), "a"), ("backward", ("backward",), "b"),
         ("communication", ("tp", "pp", "dp", "param", "other"), "c"),
         ("update", ("optimizer",), "d"), ("copy to staging", ("staging",), "e"),
         ("flush to disk", ("flushing",), "f"), ("commit", ("commit",), "g")]
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1",
               "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def trace(args, folder, mode):
    """Rank 0's spans (lane, begin, end), seconds, of a run."""
    shape = {**SHAPE, **(TINY if args.smoke else {})}
    text, out = folder / "text", folder / f"{mode}.json"
    text.write_text("".join(f"line {i} of text\n" for i in range(30000)))
    command = ["mpirun", "--oversubscribe", "--mca", "mpi_yield_when_idle",
               "1", "-np", "2", args.build / "bin/lull-train", "--data",
               text,
               "--steps", STEPS, "--val-windows", 1, "--trace", out,
               "--ckpt-dir", folder / mode, "--ckpt-every", 1, "--ckpt-mode",
               mode, "--ckpt-buffer", "256M", "--keep-last", 1]
    for name, value in shape.items():
        command += [f"--{name}", value]
    result = subprocess.run([str(word) for word in command], text=True,
                            env=ENVIRONMENT, capture_output=True)
    if result.returncode != 0:
        sys.exit("timeline.py: lull-train failed:\n" + result.stderr)
    with open(out) as file:
        events = json.load(file)["traceEvents"]
    return [(event["cat"], event["ts"] / 1e6,
             (event["ts"] + event["dur"]) / 1e6)
            for event in events if event["ph"] == "X" and event["pid"] == 0]


def steps_of(spans):
    """(begin, end) of each step: from the end of an update to the next's. The
    save is between."""
    ends = sorted(end for lane, _, end in spans if lane == "optimizer")
    return list(zip(ends, ends[1:]))


def typical(spans):
    """A step of the quickest quarter, the first and the last ones left out."""
    steps = steps_of(spans)[3:-2]
    return sorted(steps, key=lambda step: step[1] - step[0])[len(steps) // 4]


def inside(spans, lanes, begin, end):
    """Spans of the lanes within the step, those that touch joined."""
    found = sorted((max(b, begin), min(e, end)) for lane, b, e in spans
                   if lane in lanes and e > begin and b < end)
    joined = []
    for b, e in found:
        if joined and b - joined[-1][1] < (end - begin) * 5e-4:
            joined[-1] = joined[-1][0], max(e, joined[-1][1])
        else:
            joined.append((b, e))
    return joined


def total(spans):
    return sum(end - begin for begin, end in spans)


LEFT, WIDTH, RIGHT, ROW, BAR = 150, 700, 86, 26, 16
STYLE = """
text { font: 13px -apple-system, "Segoe UI", Helvetica, Arial, sans-serif;
       fill: #1f2328 }
.title { font-size: 15px; font-weight: 600 }
.note, .tick { fill: #59636e; font-size: 12px }
.tick { text-anchor: middle }
.name { text-anchor: end }
.grid { stroke: #d1d9e0; stroke-width: 1 }
.lane { fill: #f0f3f6 }
.held { fill: #cf222e; fill-opacity: .10 }
.heldtext { fill: #cf222e; font-size: 12px; text-anchor: middle }
.a { fill: #0969da } .b { fill: #3f51b5 } .c { fill: #8250df }
.d { fill: #bc4c00 } .e { fill: #1a7f37 } .f { fill: #2da44e }
.g { fill: #116329 }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc }
  .note, .tick { fill: #9198a1 }
  .grid { stroke: #3d444d } .lane { fill: #212830 }
  .held { fill: #f85149; fill-opacity: .18 } .heldtext { fill: #f85149 }
  .a { fill: #4493f8 } .b { fill: #7f8ff4 } .c { fill: #ab7df8 }
  .d { fill: #f0883e } .e { fill: #3fb950 } .f { fill: #56d364 }
  .g { fill: #2ea043 }
}
"""


def ms(seconds):
    value = 1e3 * seconds
    return f"{value:.1f} ms" if value < 10 else f"{value:.0f} ms"


def nice(longest):
    """A distance between ticks, in seconds: about eight of them."""
    for step in (.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5):
        if longest / step <= 9:
            return step
    return 10


class Picture:
    def __init__(self, longest):
        self.parts, self.y = [], 0
        self.scale = WIDTH / longest

    def add(self, part):
        self.parts.append(part)

    def text(self, x, y, kind, words):
        self.add(f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">'
                 f"{html.escape(words)}</text>")

    def box(self, x, y, width, height, kind, tip=""):
        tip = f"<title>{html.escape(tip)}</title>" if tip else ""
        self.add(f'<rect x="{x:.2f}" y="{y:.1f}" width="{max(width, .8):.2f}" '
                 f'height="{height:.1f}" class="{kind}">{tip}</rect>')

    def held(self, found, begin, top, bottom):
        """Shades the time in which training waits for the checkpoint."""
        for b, e in found:
            x, width = LEFT + (b - begin) * self.scale, (e - b) * self.scale
            self.box(x, top, width, bottom - top, "held",
                     f"training waits: {ms(e - b)}")
            if width > 130:
                self.text(x + width / 2, top - 6, "heldtext",
                          f"training waits {ms(e - b)}")

    def lane(self, name, kind, found, begin):
        y = self.y
        self.box(LEFT, y, WIDTH, BAR, "lane")
        self.text(LEFT - 10, y + 13, "name", name)
        for b, e in found:
            self.box(LEFT + (b - begin) * self.scale, y,
                     (e - b) * self.scale, BAR, kind, f"{name}: {ms(e - b)}")
        if found:
            self.text(LEFT + WIDTH + 10, y + 13, "note", ms(total(found)))
        self.y += ROW

    def axis(self, longest, top):
        step = nice(longest)
        at = 0
        while at <= longest * 1.0001:
            x = LEFT + at * self.scale
            self.add(f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" '
                     f'y2="{self.y}" class="grid"/>')
            self.text(x, self.y + 15, "tick", f"{1e3 * at:g}")
            at += step
        self.text(LEFT + WIDTH + 10, self.y + 15, "note", "ms")

    def panel(self, kind, note, spans, longest):
        begin, end = typical(spans)
        waits = total(inside(spans, ("blocked",), begin, end))
        title = f"{kind}: {ms(end - begin)}, {ms(waits)} of it waiting for it"
        self.text(16, self.y + 18, "title", title)
        self.text(16, self.y + 37, "note", note)
        self.y += 62
        top = self.y
        place = len(self.parts)
        for name, lanes, kind in LANES:
            self.lane(name, kind, inside(spans, lanes, begin, end), begin)
        self.held(inside(spans, ("blocked",), begin, end), begin, top - 4,
                  self.y)
        drawn = self.parts[place:]
        del self.parts[place:]
        self.axis(longest, top - 4)
        self.parts += drawn  # over the grid
        self.y += 34

    def legend(self, words):
        self.box(LEFT, self.y, 22, BAR, "held")
        self.text(LEFT + 30, self.y + 13, "note", words)
        self.y += 28

    def svg(self):
        width = LEFT + WIDTH + RIGHT
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
                f'height="{self.y}" viewBox="0 0 {width} {self.y}" role="img" '
                'aria-label="Timelines of a training step with a lazy and with '
                f'a synchronous checkpoint"><style>{STYLE}</style>\n' +
                "\n".join(self.parts) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--smoke", action="store_true",
                        help="whether it works: a tiny model")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lull-bench-",
                                     dir=args.build) as name:
        lazy, sync = (trace(args, pathlib.Path(name), mode)
                      for mode in ("lazy", "sync"))
    lengths = [end - begin for begin, end in map(typical, (lazy, sync))]
    longest = max(lengths)
    picture = Picture(longest)
    picture.panel(
        "A step with a lazy checkpoint",
        "The state is copied and flushed in the lull, while forward and "
        "backward leave it unchanged.", lazy, longest)
    picture.panel(
        "The same step with a synchronous checkpoint",
        "Training stands still until the checkpoint is committed.", sync,
        longest)
    picture.legend("training waits for the checkpoint.  lull-train, rank 0 of "
                   "2, from --trace; made by bench/run.sh timeline")
    args.out.write_text(picture.svg())
    print(f"{args.out}: a step takes {ms(lengths[0])} lazily, "
          f"{ms(lengths[1])} synchronously")


main()
