"""Run files of random but plausible records, for the tests that compare two ways of reading one."""

import json


def put(folder, records, name="per_query.jsonl"):
    """Write records, or lines as they are, to a file of JSON lines."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = (o if isinstance(o, str) else json.dumps(o, ensure_ascii=False) for o in records)
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return file


def lines_of(file):
    """The records of a file of JSON lines."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


TEXTS = [
    "plain",
    "",
    " ",
    "a > b",
    "né",
    "\U0001f600",
    'quote " \\ / \n',
    "2024-01-01",
    "2024-01-01T00:00:00Z",
    "\x1f ",
    "12",
    "null",
    "　",
    "x -> y",
    "> ",
]
CITED = [
    {"kind": "line", "path": "p", "start": 3, "end": 9}, {"kind": "page", "path": "p", "page": 2},
    {"kind": "code", "path": "p", "line_start": 1, "line_end": 1},
    {"kind": "time", "path": "p", "start_ms": 100, "end_ms": 900, "speaker": "A"},
    {"kind": "region", "path": "p", "x": 1.5, "w": 3},
    {"kind": "caption", "path": None}, {"kind": "line", "path": "docs/q.md"},
    {"kind": "region", "start": 4}, None,
]  # fmt: skip


def some(by, **options):
    """Those of the fields that a coin picks, in any order."""
    names = [name for name in options if by.random() < 0.7]
    by.shuffle(names)
    return {name: by.choice(options[name]) for name in names}


def plausible_hit(by, rank, rare):
    own = some(
        by,
        doc_path=["p", "q", None],
        heading_path=[["a", "b"], [], None, ["x"]],
        snippet=TEXTS,
        stale=[True, False, None],
        note=TEXTS,
        deep=[{"a": 1, "b": {"c": "t"}}, None],
    )
    own |= some(
        by,
        citation=CITED,
        retrieval=[{"fusion_score": 0.5, "method": "m"}, {"lexical_score": 3}, {}, None],
        chunk_id=["c", "d", None],
        doc_id=["d", None],
    )
    own |= (
        some(by, count=[1, 2, None, *rare], pages=[[1, 2], None, []], flags=[[True], [None]])
        if by.random() < 0.3
        else {}
    )
    return {"rank": rank, **own}


def plausible(by, n=40):
    """Records of one shape.

    Fields come and go, in any order, with values of any kind that the field may have.
    """
    rare = [0.5] if by.random() < 0.3 else []
    with_ranks = by.random() < 0.7
    for number in range(n):
        hits = [
            plausible_hit(by, rank if with_ranks else None, rare)
            for rank in range(1, by.randrange(5))
        ]
        given = some(
            by,
            answer=TEXTS,
            grounded=[True, False, None],
            refused=[None, True],
            cost_usd=[0, 0.25, None],
            model=[{"id": "m"}, None],
            refusal_reason=[None, "r"],
        )
        given |= some(
            by,
            usage=[{"prompt_tokens": 3, "latency_ms": 4}, {}, None],
            citations=[[{"marker": "[1]", "citation": by.choice(CITED)}], [], None],
            hops=[None],
        )
        line = {
            "query_id": f"q{number}",
            "hits_top_k": by.choice([hits, hits, hits, None]),
            "answer": by.choice([given | {"answer": "a"}, given | {"model": {"id": "n"}}, None]),
        }
        line |= {"latency_search_ms": by.choice([1, 2.5, None])}
        line |= some(
            by,
            query=TEXTS,
            mode=["m", None],
            error=[None, "boom"],
            scope=[None, "s"],
            elapsed_ms=[1, 2.5, 0, None],
            x=TEXTS,
            y=[1, None],
            z=[True, None],
            labels=[["a", "é"], None],
        )
        yield (
            {name: line[name] for name in by.sample(list(line), len(line))}
            if by.random() < 0.3
            else line
        )
