"""Holds what Vestal sends and what the scripted model answers to the types of OpenAI's SDK.

`check.py requests` reads bodies of requests, one per line, and validates each.
`check.py stream BASE_URL` has the SDK ask for an answer and prints what it understood as JSON.
"""

import json
import sys

from openai import OpenAI
from openai.types.responses import (
    EasyInputMessageParam,
    ResponseFunctionToolCallParam,
    ResponseReasoningItemParam,
    response_create_params,
    response_input_item_param,
)
from pydantic import TypeAdapter


def requests() -> None:
    adapter = TypeAdapter(response_create_params.ResponseCreateParamsStreaming)
    # By kind: the union of all takes too much.
    kinds = {
        None: EasyInputMessageParam,
        "reasoning": ResponseReasoningItemParam,
        "function_call": ResponseFunctionToolCallParam,
        "function_call_output": response_input_item_param.FunctionCallOutput,
    }
    known = set(response_create_params.ResponseCreateParamsBase.__annotations__) | {"stream"}
    for line in sys.stdin:
        body = json.loads(line)
        adapter.validate_python(body)
        assert set(body) <= known, set(body) - known
        for item in body["input"]:
            kind = kinds[item.get("type")]
            TypeAdapter(kind).validate_python(item)
            assert set(item) <= set(kind.__annotations__), item


def stream(base_url: str) -> None:
    client = OpenAI(base_url=base_url, api_key="x", max_retries=0)
    text, thought, kinds = "", "", []
    with client.responses.stream(
        model="m",
        input="hello",
        store=False,
        include=["reasoning.encrypted_content"],
    ) as events:
        for event in events:
            kinds.append(event.type)
            if event.type == "response.output_text.delta":
                text += event.delta
            if event.type == "response.reasoning_summary_text.delta":
                thought += event.delta
        final = events.get_final_response()
    # What was made leniently must also hold strictly.
    type(final).model_validate(final.model_dump(), strict=False)
    calls = [item for item in final.output if item.type == "function_call"]
    reasoning = [item for item in final.output if item.type == "reasoning"]
    print(
        json.dumps(
            {
                "text": text,
                "output_text": final.output_text,
                "thought": thought,
                "encrypted": [item.encrypted_content for item in reasoning],
                "calls": [[call.name, call.arguments, call.call_id] for call in calls],
                "input_tokens": final.usage.input_tokens,
                "status": final.status,
                "last": kinds[-1],
            }
        )
    )


if __name__ == "__main__":
    {"requests": requests, "stream": stream}[sys.argv[1]](*sys.argv[2:])
