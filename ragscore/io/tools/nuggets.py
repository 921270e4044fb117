"""Nuggets as AutoNuggetizer has them, and its assignments of nuggets to answers.

A line is a query with its nuggets, each with its importance; of an answer, also with its verdict.
"""

from ragscore.frames.kinds import IMPORTANCE
from ragscore.io.records import Record
from ragscore.io.source import Problems, Row
from ragscore.io.tools.cases import one_per_row
from ragscore.io.tools.cells import Cells, with_roles, without_missing

WORTH = {"support": 1.0, "partial_support": 0.5, "not_support": 0.0}
"""Verdict on a nugget -> what it counts, unless the count is strict."""


def _case(row: Row, problems: Problems, columns: dict[str, str]) -> Record:
    cells = Cells(row, problems)
    case = Record(row.line, cells.identifier("qid", "query_id"), run=cells.identifier("run_id"))
    case.response = {"query": cells.text("query"), "answer": cells.text("answer_text", "answer")}
    for number, one in enumerate(map(cells.of, cells.records("nuggets")), 1):
        text, importance = one.text("text"), one.text("importance")
        verdict, weight = one.text("assignment"), one.number("weight")
        if text is None or importance not in (*IMPORTANCE, None):
            allowed = "a text, and an importance of vital or okay"
            problems.reject(importance or text, row.line, f"nuggets.{number}", allowed)
            continue
        about = {"text": text, "importance": importance, "weight": weight}
        case.nuggets.append(without_missing(about))
        if verdict is None:
            continue
        if verdict not in WORTH:
            field = f"nuggets.{number}.assignment"
            problems.reject(verdict, row.line, field, f"one of {', '.join(WORTH)}")
            continue
        found = {"criterion": "nuggets", "item": str(number), "item_text": text}
        case.verdicts.append(
            found | {"value": WORTH[verdict], "verdict": verdict, "state": "scored"}
        )
    return with_roles(case, row, columns, problems)


read = one_per_row(_case)
