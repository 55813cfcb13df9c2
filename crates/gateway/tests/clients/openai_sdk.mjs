// What users of the Node SDK of OpenAI do, against a gateway.

import assert from "node:assert/strict";
import OpenAI from "openai";

const model = "vestal-agent";
const baseURL = process.env.BASE_URL;
const client = new OpenAI({ baseURL, apiKey: process.env.API_SERVER_KEY, maxRetries: 0 });
const user = (content) => [{ role: "user", content }];

const answer = await client.chat.completions.create({ model, messages: user("hello") });
assert.equal(answer.choices[0].message.content, "hello");

let said = "";
const chunks = await client.chat.completions.create({ model, messages: user("in many pieces"), stream: true });
for await (const chunk of chunks) said += chunk.choices[0]?.delta?.content ?? "";
assert.equal(said, "in many pieces");

const first = await client.responses.create({ model, input: "hello" });
assert.equal(first.output_text, "hello");
const second = await client.responses.create({ model, input: "more", previous_response_id: first.id });
assert.equal(second.output_text, "more");
await client.responses.delete(first.id);
await assert.rejects(client.responses.retrieve(first.id), OpenAI.NotFoundError);

const final = await client.responses.stream({ model, input: "with a helper" }).finalResponse();
assert.equal(final.output_text, "with a helper");

const stranger = new OpenAI({ baseURL, apiKey: "0".repeat(32), maxRetries: 0 });
await assert.rejects(stranger.models.list(), OpenAI.AuthenticationError);
await assert.rejects(
  client.chat.completions.create({ model, messages: user("please fail") }),
  OpenAI.InternalServerError,
);
console.log("ok");
