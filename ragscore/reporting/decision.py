"""The first screen of a page about several runs: what they decide, and each run.

In: a `Decision` and its `Standings`. Out: HTML, and Markdown.
"""

from dataclasses import replace

from ragscore.analysis.decision import NAME, Decision
from ragscore.frames.escaping import html_text, markdown_paragraph
from ragscore.frames.short_names import fitting_names, renamed
from ragscore.frames.tables import Table

ONLY = "Only differences from {0} are tested here; a report without a baseline tests all pairs."


def decision_html(decision: Decision, table: Table) -> str:
    """Return the sentence, the runs, and what is asked."""
    short = fitting_names(decision.run_ids, NAME)
    notes = [decision.asked] + ([ONLY.format(decision.baseline)] if decision.baseline else [])
    return (
        '<section class="decision" aria-label="Decision">'
        f'<h2 title="{html_text(decision.sentence)}">'
        f"{html_text(decision.short)}</h2>{replace(table, is_wide=True).to_html(alone=False)}"
        f'<p class="note">{html_text(renamed(" ".join(notes), short))}</p></section>'
    )


def decision_blocks(decision: Decision, table: Table) -> list[str]:
    """Return the same as blocks of Markdown, with whole names."""
    return [
        f"## {markdown_paragraph(decision.sentence)}",
        table.to_markdown(),
        markdown_paragraph(decision.asked),
    ]
