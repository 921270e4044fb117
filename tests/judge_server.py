"""The judge by words, with faults to inject and requests held back."""

import json
import zlib

from servers import Reply, Server

from ragscore.demo.sea import word_judge, words

DIMENSIONS = 256
AGAIN = {"retry-after-ms": "1"}


class FaultyServer(Server):
    """`faults` maps the number of a request (from 0) to a fault's name, or is a function of number
    and body that gives one or None.

    With `gather` requests are held back until so many are under way at once.
    """

    def __init__(self, faults=None, gather=1):
        super().__init__(self.answer, gather)
        self.faults = faults if callable(faults) else lambda n, body: (faults or {}).get(n)
        self.url += "/v1"

    def answer(self, seen):
        fault = self.faults(seen.number - 1, seen.body)
        return FAULTS[fault](seen.body) if fault else verdict(seen.body)

    @property
    def chats(self):
        """The requests for completions."""
        return [body for body in self.bodies if "messages" in body]


def verdict(body):
    """Return the sound completion of a request."""
    return completed(body, json.dumps(judged(body), ensure_ascii=False))


def judged(body):
    """Return the judgment by words that a request asks for."""
    schema = body["response_format"]["json_schema"]["schema"]
    return json.loads(word_judge(body["messages"], schema))


def completed(body, text, finish="stop"):
    """Return a chat completion with this text."""
    asked = sum(len(message["content"]) for message in body["messages"]) // 4
    told = len(text) // 4
    return {
        "id": "chatcmpl-0", "object": "chat.completion", "created": 0, "model": body["model"],
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
        ],
        "usage": {
            "prompt_tokens": asked, "completion_tokens": told, "total_tokens": asked + told,
        },
    }  # fmt: skip


def vector(text):
    """Return the counts of a text's words, by the hash of each word."""
    counts = [0.0] * DIMENSIONS
    for word in words(text):
        counts[zlib.crc32(word.encode()) % DIMENSIONS] += 1
    return counts


def said(status, text, headers=None):
    return lambda body: Reply(status=status, text=text, headers=headers or {})


def reply(text, finish="stop"):
    return lambda body: completed(body, text(body) if callable(text) else text, finish)


def whole(body):
    return json.dumps(judged(body))


FAULTS = {
    "429": said(429, '{"error": {"message": "slow down"}}', AGAIN),
    "500": said(500, '{"error": {"message": "oh"}}', AGAIN),
    "400": said(400, '{"error": {"message": "the content filter says no"}}'),
    "401": said(401, '{"error": {"message": "wrong key sk-secret"}}'),
    "drop": lambda body: Reply(parts=[]),
    "broken": said(200, '{"choices": [{"mess'),
    "no_choice": said(200, '{"id": "x", "choices": []}'),
    "truncated": reply(lambda body: whole(body)[:-9], finish="length"),
    "seven": reply(lambda body: json.dumps({**judged(body), "score": 7})),
    "two": reply(lambda body: whole(body) + "\n" + whole(body)),
    "prose": reply(lambda body: f"Gladly. Here is my verdict:\n{whole(body)}\nI hope this helps."),
    "fenced": reply(lambda body: f"```json\n{whole(body)}\n```"),
    "thoughts": reply(lambda body: f"<think>maybe {{\"score\": 0}}</think>\n{whole(body)}"),
    "twice_a_key": reply(lambda body: whole(body).replace("{", '{"score": 5, ', 1)),
    "extra": reply(lambda body: json.dumps({**judged(body), "confidence": 1})),
    "nan": reply(lambda body: whole(body).replace('"score": ', '"score": NaN, "_": ')),
    "empty": reply(""),
    "words": reply("five of five"),
}  # fmt: skip
