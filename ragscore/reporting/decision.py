"""The first screen of a page about several runs: what they decide, each run, and all pairs.

In: a `Decision` and its `Standings`. Out: HTML that needs no script to be read, the data from which
a script reads the table against another run, and Markdown.
"""

import json
from collections.abc import Mapping

import pandas as pd

from ragscore.analysis.decision import NAME, PAIRS, Decision
from ragscore.analysis.standings import Standings, verdict_cell, verdict_text
from ragscore.frames.errors import plural
from ragscore.frames.escaping import html_text, markdown_paragraph
from ragscore.frames.short_names import fitting_names, renamed
from ragscore.frames.tables import Table
from ragscore.scoring.primary import REFUSALS

ONLY = "Only differences from {0} are tested here; a report without a baseline tests all pairs."
MORE = "{0} no row here: ev.compare(baseline, candidate) has their pairs."
ONE_SIDED = (
    "A cell may say more than its mirror: losing in one metric of refusals is worse, but winning in"
    " one is better only where the other hasn't fallen."
)
READ = "Each row's run against the run of the column. Runs are numbered best first, as above."


def decision_html(
    decision: Decision, table: Standings, links: Mapping[tuple[str, str], str]
) -> str:
    """Return the sentence, the runs, and what is asked; `links` as of `pairs_html`."""
    short = fitting_names(decision.run_ids, NAME)
    notes = [decision.asked] + ([ONLY.format(decision.baseline)] if decision.baseline else [])
    data = json.dumps(_readings(decision, links), ensure_ascii=False).replace("<", "\\u003c")
    return (
        '<section class="decision" aria-label="Decision">'
        f'<h2 title="{html_text(decision.sentence)}">'
        f"{html_text(decision.short)}</h2>{table.to_html(alone=False)}"
        f'<p class="note">{html_text(renamed(" ".join(notes), short))}</p>'
        f'<script type="application/json" id="readings">{data}</script></section>'
    )


def pairs_html(decision: Decision, links: Mapping[tuple[str, str], str]) -> str:
    """Return all pairs as a matrix of verdicts; a cell leads to the pair's section or line.

    Parameters
    ----------
    links
        Two runs -> the id of the section that compares them.
    """
    runs, short = decision.run_ids[:PAIRS], fitting_names(decision.run_ids, NAME)
    rows, lines = [], []
    for at, run in enumerate(runs):
        cells = []
        for place, other in enumerate(runs):
            word, told = decision.of_pair(other, run)
            name = links.get((other, run)) or links.get((run, other)) or f"pair-{at}-{place}"
            cells.append(verdict_cell(word, told, name if word else ""))
            if word and name == f"pair-{at}-{place}":
                text = f"{run} against {other}: {verdict_text(word)}. {told}."
                lines.append(f'<p class="pair" id="{name}">{html_text(text)}</p>')
        rows.append(
            f'<tr><th scope="row" data-at="{at}" title="{html_text(run)}">{at + 1} '
            f"{html_text(short[run])}</th>"
            f"{''.join(cells)}</tr>"
        )
    heads = "".join(
        f'<th scope="col" data-at="{at}" title="{html_text(run)}">{at + 1}</th>'
        for at, run in enumerate(runs)
    )
    return (
        f'<div><p class="note">{html_text(" ".join([READ, *_more(decision)]))}</p>'
        '<div class="matrix" role="region" aria-label="All pairs" tabindex="0"><table><thead><tr>'
        '<th scope="col">run'
        f"</th>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
        f"{''.join(lines)}</div>"
    )


def decision_blocks(decision: Decision, table: Standings) -> list[str]:
    """Return the same as blocks of Markdown, with whole names."""
    blocks = [f"## {markdown_paragraph(decision.sentence)}", table.to_markdown()]
    blocks += [markdown_paragraph(decision.asked)]
    if has_pairs(decision):
        runs = decision.run_ids[:PAIRS]
        frame = pd.DataFrame({"run": [f"{at} {run}" for at, run in enumerate(runs, 1)]})
        for at, other in enumerate(runs, 1):
            frame[str(at)] = [decision.of_pair(other, run)[0] or "–" for run in runs]
        pairs = Table(frame, verdicts=frame.columns.tolist()).to_markdown()
        blocks += ["### All pairs", " ".join([READ, *_more(decision)]), pairs]
    return blocks


def has_pairs(decision: Decision) -> bool:
    """Return whether there are more pairs than the table of runs shows."""
    return len(decision.run_ids) > 2 and decision.baseline is None


def _more(decision: Decision) -> list[str]:
    """Say which pairs are left out, and why a pair may read differently from its other side."""
    n, notes = len(decision.run_ids) - PAIRS, list[str]()
    if set(REFUSALS) <= set(decision.primary):
        notes.append(ONE_SIDED)
    if n > 0:
        notes.append(MORE.format(f"{plural(n, 'more run')} {'has' if n == 1 else 'have'}"))
    return notes


def _readings(decision: Decision, links: Mapping[tuple[str, str], str]) -> dict[str, object]:
    """Return the runs, and of each that may be chosen how the page reads against it.

    That is its sentence, short and whole, its verdicts, and the ids of the sections it is in.
    """
    chosen = decision.run_ids[:PAIRS] if has_pairs(decision) else ()
    short = fitting_names(decision.run_ids, NAME)
    told = [decision.read_against(run) for run in chosen]
    return {
        "runs": decision.run_ids,
        "names": [short[run] for run in chosen],
        "against": decision.against,
        "sentences": [[renamed(text, short), text] for text in told],
        "sections": [
            sorted({name for pair, name in links.items() if name and run in pair}) for run in chosen
        ],
        "cells": [
            [verdict_cell(*decision.of_pair(other, run)) for run in decision.run_ids]
            for other in chosen
        ],
    }
