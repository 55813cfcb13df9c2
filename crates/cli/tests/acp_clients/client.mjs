// The SDK of the Agent Client Protocol for TypeScript against `vestal acp`.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

// Where it is installed is not where this file is.
const require = createRequire(join(process.env.VESTAL_NODE_MODULES, "x.js"));
const acp = await import(pathToFileURL(require.resolve("@agentclientprotocol/sdk")));

const project = process.argv[2];
const program = spawn(process.env.VESTAL_PROGRAM, ["acp"], { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(program.stdin), Readable.toWeb(program.stdout));

const updates = [];
const asked = [];
const of = (kind) => updates.filter((update) => update.sessionUpdate === kind);
const words = (kind) => of(kind).map((update) => update.content.text).join("");

const app = acp
  .client({ name: "typescript-sdk" })
  .onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
    asked.push(params);
    const once = params.options.find((option) => option.kind === "allow_once");
    return { outcome: { outcome: "selected", optionId: once.optionId } };
  })
  .onNotification(acp.methods.client.session.update, ({ params }) => {
    // The SDK has checked it against the schema.
    updates.push(params.update);
  });

await app.connectWith(stream, async (agent) => {
  const request = (method, params) => agent.request(method, params);
  const { session, initialize } = acp.methods.agent;
  const begun = await request(initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientCapabilities: { fs: { readTextFile: true, writeTextFile: true }, terminal: true },
  });
  assert.equal(begun.protocolVersion, acp.PROTOCOL_VERSION);
  const opened = await request(session.new, { cwd: project, mcpServers: [] });
  const { sessionId, modes, configOptions } = opened;
  assert.equal(modes.currentModeId, "ask");
  assert.deepEqual(configOptions.map((option) => option.id), ["mode", "model", "thought_level"]);
  const chosen = await request(session.setConfigOption, { sessionId, configId: "thought_level", value: "high" });
  assert.equal(chosen.configOptions[2].currentValue, "high");
  const say = (text) => request(session.prompt, { sessionId, prompt: [{ type: "text", text }] });
  assert.equal((await say("work")).stopReason, "end_turn");
  assert.equal(words("agent_message_chunk"), "It burns.");
  assert.deepEqual(of("tool_call").map((call) => call.kind), ["execute", "edit", "execute", "think"]);
  const ended = of("tool_call_update").filter((update) => update.status === "completed");
  const path = join(project, "notes.txt");
  assert.deepEqual(ended[1].content, [{ type: "diff", path, newText: "one\n" }]);
  assert.equal(readFileSync(path, "utf8"), "one\n");
  assert.deepEqual(of("plan").at(-1).entries.map((entry) => entry.status), ["in_progress"]);
  assert.ok(of("available_commands_update")[0].availableCommands.length > 10);

  const listed = await request(session.list, { cwd: project });
  assert.deepEqual(listed.sessions.map((one) => one.sessionId), [sessionId]);
  const waiting = say("wait");
  while (of("tool_call").length < 5) {
    await new Promise((resume) => setTimeout(resume, 20));
  }
  await agent.notify(session.cancel, { sessionId });
  assert.equal((await waiting).stopReason, "cancelled");
  await request(session.close, { sessionId });
  updates.length = 0;
  await request(session.load, { sessionId, cwd: project, mcpServers: [] });
  assert.ok(words("user_message_chunk").startsWith("work"));
  await assert.rejects(request(session.load, { sessionId: "none", cwd: project, mcpServers: [] }));
});

const exited = new Promise((exited) => program.once("exit", exited));
program.stdin.end();
assert.equal(await exited, 0);
console.log("ok");
