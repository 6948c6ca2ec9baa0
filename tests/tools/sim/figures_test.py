#!/usr/bin/env python3
"""The figures in docs/cc are what the commands beside them draw.

Usage: figures_test.py TOOL FOLDER [--update]

In a page of FOLDER, `![...](figures/NAME-KIND.svg)` is the figure KIND.svg of the page's command, an indented
line `spindrift sim ... --plot FOLDER`. The commands must work and draw these kinds, of the same runs as those
stored. --update stores what they draw now: look at it before you commit it.
"""

import html
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

TOOL = ""
FOLDER = pathlib.Path()
UPDATES = False


def headings(file):
    """Title and subtitle: of which run it is, and what it shows."""
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", file.read_text())
    return [html.unescape(text) for text in texts[:2]]


class Figures(unittest.TestCase):
    def test_the_commands_draw_them(self):
        pages = sorted(page for page in FOLDER.glob("*.md") if page.name != "README.md")
        self.assertGreater(len(pages), 8)
        for page in pages:
            with self.subTest(page.name), tempfile.TemporaryDirectory() as folder:
                text = page.read_text()
                figures = re.findall(r"!\[[^\]]+\]\(figures/([^)]+)\)", text)
                commands = re.findall(r"^    spindrift (sim .*) --plot (\S+)$", text, re.MULTILINE)
                self.assertTrue(figures, "the page has no figure")
                self.assertEqual(len(commands), 1, "one command draws a page's figures")
                done = subprocess.run([TOOL, *shlex.split(commands[0][0]), "--plot", folder],
                                      capture_output=True, text=True, timeout=120)
                self.assertEqual(done.returncode, 0, done.stderr)
                for figure in figures:
                    stem, kind = figure.rsplit("-", 1)
                    self.assertEqual(stem, page.stem)
                    drawn, stored = pathlib.Path(folder) / kind, FOLDER / "figures" / figure
                    if UPDATES:
                        stored.parent.mkdir(exist_ok=True)
                        stored.write_text(drawn.read_text())
                    self.assertEqual(headings(drawn), headings(stored))

    def test_every_figure_is_on_a_page(self):
        shown = {name for page in FOLDER.glob("*.md")
                 for name in re.findall(r"\(figures/([^)]+)\)", page.read_text())}
        self.assertEqual({file.name for file in (FOLDER / "figures").iterdir()}, shown)


if __name__ == "__main__":
    UPDATES = "--update" in sys.argv
    sys.argv = [word for word in sys.argv if word != "--update"]
    TOOL = sys.argv.pop(1)
    FOLDER = pathlib.Path(sys.argv.pop(1))
    unittest.main()
