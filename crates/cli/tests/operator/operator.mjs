// Questions of API runs as they reach a person, on a desktop and a phone; gateways that are killed, stopped and broken
// under an open page. The link and the key of the API come on standard input.
import assert from "node:assert/strict";
import { join } from "node:path";
import { ask, BASE, heard, login, PICTURES, settled, SIZES, story } from "../../../dashboard/tests/browser/driver.mjs";

const link = await heard();
const key = await heard();
const { API } = process.env;

async function api(path, body) {
  const method = body ? "POST" : "GET";
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const answer = await fetch(`${API}${path}`, { method, headers, body: body && JSON.stringify(body) });
  assert.ok(answer.ok, `${path}: ${answer.status} ${answer.statusText}`);
  return answer.json();
}

const begin = async (input) => (await api("/v1/runs", { input })).run_id;

/** Reads the events of a run to the last, over as many connections as it takes, and returns the run. */
async function ended(run) {
  const deadline = Date.now() + 60_000;
  for (;;) {
    assert.ok(Date.now() < deadline, `run ${run} does not end`);
    try {
      const answer = await fetch(`${API}/v1/runs/${run}/events`, { headers: { authorization: `Bearer ${key}` } });
      await answer.text();
      const found = await api(`/v1/runs/${run}`);
      if (["completed", "failed", "cancelled", "interrupted"].includes(found.status)) return found;
    } catch (error) {
      // Its gateway is away, and comes back.
      if (error instanceof assert.AssertionError) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

await story(async (browser) => {
  const complaints = [];
  const { context, page } = await login(browser, link, complaints);
  const phone = await context.newPage();
  await phone.setViewportSize(SIZES.phone);
  await phone.goto(`${BASE}/`);
  await settled(phone);
  const loads = [];
  for (const one of [page, phone]) one.on("load", () => loads.push(one.url()));
  const pages = [page, phone];
  const asked = (one) => one.locator("li.needed", { hasText: "rm -rf ./precious" });
  const shown = () => Promise.all(pages.map((one) => asked(one).waitFor()));
  const gone = () => Promise.all(pages.map((one) => asked(one).waitFor({ state: "detached" })));

  // Asked as it happens on both, without a load; answered on one, it goes from the other.
  const first = await begin("please remove it");
  await shown();
  await asked(page).getByText("through its gateway").waitFor();
  if (PICTURES) {
    await page.screenshot({ path: join(PICTURES, "now-approval-desktop.png") });
    await phone.screenshot({ path: join(PICTURES, "now-approval-phone.png") });
  }
  await asked(page).getByRole("button", { name: "Allow once" }).click();
  await gone();
  assert.deepEqual(await ended(first).then(({ status, output }) => [status, output]), ["completed", "so be it"]);

  // Denied on the phone.
  const second = await begin("remove it again");
  await shown();
  await asked(phone).getByRole("button", { name: "Deny" }).click();
  await gone();
  assert.equal((await ended(second)).status, "completed", "the model is told, and goes on");

  // Its gateway is killed over the question: the next one goes on with the run and asks again.
  const third = await begin("remove it at the worst moment");
  await shown();
  const before = await api(`/v1/runs/${third}`);
  assert.equal(before.status, "waiting");
  await ask("kill the gateway");
  await gone();
  await shown();
  await asked(page).getByRole("button", { name: "Allow once" }).click();
  await gone();
  assert.deepEqual(await ended(third).then(({ status, output }) => [status, output]), ["completed", "so be it"]);
  assert.deepEqual(loads, [], "nothing was loaded anew");

  // A worker that the gateway starts makes a file in its sandbox; it is looked at, commented on and approved.
  await ask("make a task");
  const waiting = page.locator("li.needed", { hasText: "Write a note" });
  await waiting.waitFor({ timeout: 60_000 });
  await waiting.getByRole("link", { name: "Review" }).click();
  await page.getByText("which began empty").waitFor();
  const file = page.locator("section.file", { hasText: "note.txt" });
  await file.getByText("<b>two</b>").waitFor();
  if (PICTURES) await page.screenshot({ path: join(PICTURES, "review-scratch-desktop.png") });
  assert.equal(await page.getByRole("button", { name: "Merge…" }).count(), 0, "there is no branch to merge");
  await page.getByRole("button", { name: "Approve" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Approve" }).click();
  await page.getByText("approved; the task is done").waitFor();

  // What became of the gateways is said, and the broken one keeps nobody from stopping another.
  await page.goto(`${BASE}/gateways`);
  await settled(page);
  const card = (name) => page.locator("section.card", { has: page.getByRole("heading", { name, exact: true }) });
  await card("default").getByText("1 restart").waitFor();
  await card("default").getByText("ended by signal 9").first().waitFor();
  await card("broken").getByText("gateway_state.json").first().waitFor();
  await card("broken").getByText("failed", { exact: true }).waitFor();
  if (PICTURES) await page.screenshot({ path: join(PICTURES, "gateways-desktop.png"), fullPage: true });
  await card("work").getByRole("button", { name: "Stop" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Stop" }).click();
  await card("work").getByText("stopped", { exact: true }).waitFor();
  await ask("look at the gateway of work");
  await card("work").getByRole("button", { name: "Start" }).click();
  await card("work").getByText("running", { exact: true }).waitFor();
  assert.deepEqual(complaints, []);
});
