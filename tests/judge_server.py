"""The judge by words, with faults to inject and requests held back."""

import json
import threading

from ragscore.demo.judge_server import JudgeServer, completed, judged

AGAIN = {"retry-after-ms": "1"}


class FaultyServer(JudgeServer):
    """`faults` maps the number of a request (from 0) to a fault's name, or is a function of number
    and body that gives one or None.

    With `hold` requests are held back until so many are under way at once.
    """

    def __init__(self, faults=None, hold=0):
        self.faults = (
            faults
            if callable(faults)
            else lambda number, body, known=dict(faults or {}): known.get(number)
        )
        self.hold, self.in_flight, self.most, self.headers = hold, 0, 0, []
        self.full = threading.Event()
        super().__init__()

    @property
    def chats(self):
        """The requests for completions."""
        return [body for body in self.requests if "messages" in body]

    def answer(self, path, body, headers):
        with self.lock:
            number = len(self.headers)
            self.headers.append(headers)
            self.in_flight += 1
            self.most = max(self.most, self.in_flight)
            if self.in_flight >= self.hold:
                self.full.set()
        if self.hold:
            assert self.full.wait(60), f"never {self.hold} requests at once"
        status, more, content = super().answer(path, body, headers)  # which notes the request
        fault = self.faults(number, body)
        with self.lock:
            self.in_flight -= 1
        return FAULTS[fault](body) if fault else (status, more, content)


def reply(text, finish="stop"):
    return lambda body: (
        200,
        {},
        json.dumps(completed(body, text(body) if callable(text) else text, finish)).encode(),
    )


def whole(body):
    return json.dumps(judged(body))


FAULTS = {
    "429": lambda body: (429, AGAIN, b'{"error": {"message": "slow down"}}'),
    "500": lambda body: (500, AGAIN, b'{"error": {"message": "oh"}}'),
    "400": lambda body: (400, {}, b'{"error": {"message": "the content filter says no"}}'),
    "401": lambda body: (401, {}, b'{"error": {"message": "wrong key sk-secret"}}'),
    "drop": lambda body: (0, {}, b""),
    "broken": lambda body: (200, {}, b'{"choices": [{"mess'),
    "no_choice": lambda body: (200, {}, b'{"id": "x", "choices": []}'),
    "truncated": reply(lambda body: whole(body)[:-9], finish="length"),
    "seven": reply(lambda body: json.dumps({**judged(body), "score": 7})),
    "two": reply(lambda body: whole(body) + "\n" + whole(body)),
    "prose": reply(lambda body: f"Gladly. Here is my verdict:\n{whole(body)}\nI hope this helps."),
    "fenced": reply(lambda body: f"```json\n{whole(body)}\n```"),
    "thoughts": reply(lambda body: f"<think>maybe {{\"score\": 0}}</think>\n{whole(body)}"),
    "twice_a_key": reply(lambda body: whole(body).replace("{", '{"score": 5, ', 1)),
    "extra": reply(lambda body: json.dumps({**judged(body), "confidence": 1})),
    "nan": reply(lambda body: whole(body).replace('"score": ', '"score": NaN, "_": ')),
    "quote": reply(
        lambda body: (
            f"The answer holds {json.loads(body['messages'][1]['content'])['answer']}, and I stop."
        )
    ),
    "empty": reply(""),
    "words": reply("five of five"),
}  # fmt: skip
