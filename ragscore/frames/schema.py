"""The fields of results, declared once: column, type, place in our file, names elsewhere.

From these tables follow the kinds of frames (kinds.py), the reader, the writer and the fast reader
of our run file (io.run_file), the roles of foreign columns (io.columns) and what looks misspelt.
"""

from dataclasses import dataclass

# Type of a field -> dtype of its column.
DTYPES = {
    "text": "str", "id": "str", "flag": "boolean", "number": "float64", "whole": "Int64",
    "score": "float64", "json": "str", "texts": "str", "failure": "str", "refusal": "boolean",
    "heading": "str",
    "run": "category", "rank": "int32", "place": "int32",
}  # fmt: skip


@dataclass(frozen=True)
class Field:
    """One field.

    Attributes
    ----------
    column, type
        Its column, and what its values are (see `DTYPES`).
    at
        Where it is in its object of our file, such as `answer.usage.prompt_tokens`; None: not
        there, or taken by a rule of its own.
    names
        What foreign columns with it are called, the surest first.
    role
        Its name in `columns=`, if that isn't the column's.
    also
        Places where it is read, too, if it isn't at `at`.
    null
        It is written as null where it is unknown.
    """

    column: str
    type: str = "text"
    at: str | None = None
    required: bool = False
    names: str = ""
    role: str = ""
    also: tuple[str, ...] = ()
    null: bool = False


_RUN = Field(
    "run_id",
    "run",
    required=True,
    names="run_id run run_name runid system system_name tag run_tag retriever model method",
)
QUERY_ID_NAMES = (
    "query_id qid q_id queryid question_id topic_id topic test_case_id case_id example_id _id id"
)
CONVERSATION_NAMES = (
    "conversation conversation_id session session_id thread_id dialog_id dialogue_id"
)
MADE_ID = "q-[0-9a-f]{12}"  # of ids that readers make of a query's text
TURN_NAMES = "turn turn_number turn_no turn_index"
QUERY_NAMES = "query question query_text question_text user_input user_query prompt"
_CELL = [_RUN, Field("query_id", "id", required=True)]
_HEADING = Field("heading", "heading", "heading_path")
_SPAN = [Field("start", "whole"), Field("end", "whole"), Field("span_unit")]  # see io.run_file
DOC_ID_NAMES = (
    "docno doc_id docid doc document_id document documents corpus_id did pid article_id item_id"
    " page_id product_id url"
)
CHUNK_ID_NAMES = "chunk_id chunkid chunk passage_id segment_id node_id context_id"

FIELDS: dict[str, list[Field]] = {
    "responses": [
        _RUN,
        Field("query_id", "id", "query_id", required=True, names=QUERY_ID_NAMES),
        Field("query", "text", "query", required=True, null=True, names=QUERY_NAMES),
        Field("error", "failure", "error", required=True, null=True,
              names="error error_message exception"),
        Field("conversation", "text", "conversation", names=CONVERSATION_NAMES),
        Field("turn", "text", "turn", names=TURN_NAMES),
        Field("mode", "text", "mode", null=True),
        Field("answer", "text", "answer.answer",
              names="answer response generated_answer predicted_answer model_answer prediction"
              " output completion generation"),
        Field("grounded", "flag", "answer.grounded"),
        Field("refused", "refusal", "answer.refused", names="refused abstained is_refusal"),
        Field("refusal_reason", "text", "answer.refusal_reason"),
        Field("elapsed_ms", "number", "elapsed_ms", null=True, role="latency_ms",
              names="latency_ms elapsed_ms duration_ms"),
        Field("prompt_tokens", "whole", "answer.usage.prompt_tokens",
              names="prompt_tokens input_tokens"),
        Field("completion_tokens", "whole", "answer.usage.completion_tokens",
              names="completion_tokens output_tokens"),
        Field("cost_usd", "number", "answer.cost_usd", names="cost_usd"),
        Field("scope", "json", "scope"),
        Field("n_citations", "whole"),  # 0: it is recorded that the answer cites nothing
    ],
    "hits": [
        *_CELL,
        Field("rank", "rank", "rank", required=True, names="rank position pos"),
        Field("call", "whole", "call", names="call call_no call_number call_index"),
        Field("chunk_id", "id", "chunk_id", names="retrieved_chunk_ids retrieved_chunks"
              " retrieved_context_ids retrieved_passage_ids chunk_ids passage_ids context_ids"
              f" node_ids {CHUNK_ID_NAMES}"),
        Field("doc_id", "id", "doc_id", names="retrieved_doc_ids retrieved_docs"
              " retrieved_documents retrieved_ids retrieved ranked_doc_ids ranked_ids ranked"
              " ranking doc_ids docids docnos document_ids result_ids results hits top_k hits_top_k"
              f" predicted_ids predictions {DOC_ID_NAMES} ids id _id"),
        Field("path", "text", "doc_path"), _HEADING, *_SPAN,
        Field("text", "text", "snippet", names="retrieved_texts retrieved_contexts"
              " retrieved_passages contexts passages texts text passage passage_text chunk_text"
              " document_text content contents page_content context"),
        Field("text_cut", "flag", "text_cut"),
        Field("score", "score", "retrieval.fusion_score", also=("score",), names="score scores"
              " retrieved_scores retrieval_score similarity similarities sim similarity_score"
              " relevance_score distance distances"),
        Field("score_kind", "text", "score_kind"),
        Field("score_lexical", "score", "retrieval.lexical_score", also=("score_lexical",)),
        Field("score_vector", "score", "retrieval.vector_score", also=("score_vector",)),
        Field("source_key", "text", "source_key"),
        Field("chunker_version", "text", "chunker_version"),
        Field("stale", "flag", "stale"),
    ],
    "citations": [
        *_CELL,
        Field("position", "place", required=True),
        Field("marker", "text", "marker"),
        Field("chunk_id", "id", "chunk_id"), Field("doc_id", "id", "doc_id"),
        Field("path", "text", "path"), _HEADING, *_SPAN,
    ],
    "calls": [
        *_CELL,
        Field("call", "place", required=True),
        Field("query", "text", "query"), Field("tool", "text", "tool"),
        Field("kind", "text", "kind"), Field("start", "text", "start"),
        Field("elapsed_ms", "number", "elapsed_ms"),
        Field("n_hits", "whole", "n_hits"),
        Field("error", "text", "error"),
        Field("sub_queries", "texts", "sub_queries"),
        Field("chunks_added", "whole", "context_chunks_added"),
        Field("forced_stop", "flag", "forced_stop"),
        Field("llm_call_ms", "number", "llm_call_ms"),
    ],
}  # fmt: skip

# Objects inside ours that have rules of their own, and fields that tools write beside ours, of
# which none is a typo.
BESIDE: dict[str, str] = {
    "responses": "hits_top_k answer",
    "responses.answer": "citations usage model embedding prompt_template_version retrieval"
    " created_at hops verification",
    "citations": "path span_unit citation heading_path start end indexed_at stale",
    "hits": "doc_path span_unit metadata citation heading_path retrieval start end section_label"
    " index_version embedding_model indexed_at repo code_lang source_id trust_level",
}


def columns_of(kind: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the columns that a kind of frame must have, and those it may have, with dtypes."""
    must, may = (
        {field.column: DTYPES[field.type] for field in FIELDS[kind] if field.required is is_needed}
        for is_needed in (True, False)
    )
    return must, may


def role_names() -> dict[str, str]:
    """Return role -> the names of foreign columns with it, of all fields that have such names."""
    found: dict[str, str] = {}
    for kind in ("hits", "responses"):  # a bare `id` is a document's, so documents come first
        for field in sorted(FIELDS[kind], key=lambda one: one.column not in ("run_id", "doc_id")):
            if field.names:
                found.setdefault(field.role or field.column, field.names)
    return found


def columns(kind: str, under: str = "") -> tuple[str, ...]:
    """Return the columns of a kind without its run, query and place, those that lie `under`."""
    return tuple(
        field.column for field in FIELDS[kind]
        if field.type not in ("run", "place") and field.column != "query_id"
        and (field.at or "").startswith(under)
    )  # fmt: skip
