"""What users of the Python SDK of OpenAI do, against a gateway."""

import os

import openai
from openai import OpenAI

MODEL = "vestal-agent"
client = OpenAI(base_url=os.environ["BASE_URL"], api_key=os.environ["API_SERVER_KEY"], max_retries=0)


def user(text):
    return [{"role": "user", "content": text}]


def expect(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


assert [model.id for model in client.models.list()] == [MODEL]

# Chat completions.
answer = client.chat.completions.create(model=MODEL, messages=user("hello"))
assert answer.choices[0].message.content == "hello", answer
assert answer.choices[0].finish_reason == "stop"
assert answer.usage.total_tokens > 0

raw = client.chat.completions.with_raw_response.create(model=MODEL, messages=user("remember"))
session = raw.headers["x-vestal-session-id"]
again = client.chat.completions.with_raw_response.create(
    model=MODEL, messages=user("go on"), extra_headers={"X-Vestal-Session-Id": session}
)
assert again.headers["x-vestal-session-id"] == session

chunks = list(
    client.chat.completions.create(
        model=MODEL, messages=user("in many pieces"), stream=True, stream_options={"include_usage": True}
    )
)
said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
assert said == "in many pieces", said
assert chunks[-1].usage.total_tokens > 0

with client.chat.completions.stream(model=MODEL, messages=user("with a helper")) as stream:
    assert stream.get_final_completion().choices[0].message.content == "with a helper"

# Responses.
first = client.responses.create(model=MODEL, input="hello")
assert first.output_text == "hello" and first.status == "completed", first
second = client.responses.create(model=MODEL, input=user("more"), previous_response_id=first.id)
assert second.output_text == "more" and second.previous_response_id == first.id
assert client.responses.retrieve(first.id).output_text == "hello"
client.responses.delete(first.id)
expect(openai.NotFoundError, lambda: client.responses.retrieve(first.id))

events = list(client.responses.create(model=MODEL, input="look around", stream=True))
assert events[0].type == "response.created" and events[-1].type == "response.completed"
assert [event.sequence_number for event in events] == list(range(len(events)))
items = [item.type for item in events[-1].response.output]
assert items == ["function_call", "function_call_output", "message"], items
assert events[-1].response.output_text == "It is lantern."

with client.responses.stream(model=MODEL, input="look around") as stream:
    deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
    final = stream.get_final_response()
assert "".join(deltas) == final.output_text == "It is lantern.", final

# Failures.
stranger = OpenAI(base_url=os.environ["BASE_URL"], api_key="0" * 32, max_retries=0)
error = expect(openai.AuthenticationError, lambda: stranger.models.list())
assert error.code == "invalid_api_key"
error = expect(
    openai.BadRequestError,
    lambda: client.chat.completions.create(model=MODEL, messages=user("x"), n=2),
)
assert error.param == "n"
failing = user("please fail")
error = expect(
    openai.InternalServerError, lambda: client.chat.completions.create(model=MODEL, messages=failing)
)
assert error.status_code == 502
expect(
    openai.InternalServerError,
    lambda: list(client.chat.completions.create(model=MODEL, messages=failing, stream=True)),
)
expect(openai.InternalServerError, lambda: client.responses.create(model=MODEL, input=failing))
print("ok")
