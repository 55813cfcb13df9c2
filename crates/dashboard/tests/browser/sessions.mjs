// Two profiles, somebody who may only look, a server that is away for a while, a gateway that is restarted under
// an open page, and the ways out. Links of an operator and a viewer come on standard input.
import assert from "node:assert/strict";
import { ask, BASE, heard, ledToLogin, login, settled, story } from "./driver.mjs";

const operator = await heard();
const viewer = await heard();
const complaints = [];
// What a browser says of a server that is away, and of a session that has ended.
const expected = (text) => /ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET|status of 401/.test(text);

await story(async (browser) => {
  const { context, page } = await login(browser, operator, complaints, expected);

  // All profiles, then one: the address says which, and every link keeps it.
  await page.goto(`${BASE}/board`);
  await page.getByText("For the first").waitFor();
  await page.getByText("For the second").waitFor();
  await page.getByLabel("Profile").selectOption("work");
  await page.waitForURL(/profile=work/);
  await page.getByText("For the first").waitFor({ state: "detached" });
  await page.getByText("For the second").waitFor();
  await page.getByRole("link", { name: "Conversations", exact: true }).click();
  await page.waitForURL(/\/conversations\?.*profile=work/);
  await page.getByText("said at work").first().waitFor();
  assert.equal(await page.getByText("said at home").count(), 0);
  await page.goBack();
  await page.getByText("For the second").waitFor();
  assert.equal(await page.getByText("For the first").count(), 0, "going back keeps it, too");
  await page.goto(`${BASE}/conversations?profile=nobody`);
  await page.getByText("there is no profile nobody").waitFor();

  // A gateway is restarted: the open page follows.
  await page.goto(`${BASE}/gateways`);
  await page.getByText("process 4001").waitFor();
  await ask("restart the gateway");
  await page.getByText("process 4002").waitFor();
  await page.getByText("1 restart").waitFor();

  // The server is away and comes back: the page says so, keeps what it shows, and catches up by itself.
  await page.goto(`${BASE}/board`);
  await page.getByText("For the first").waitFor();
  const loads = [];
  page.on("load", () => loads.push(page.url()));
  await ask("go away");
  await page.getByText("Not connected; trying again.").waitFor();
  assert.ok(await page.getByText("For the first").count(), "what was there stays");
  await ask("come back with a task");
  await page.getByText("Made while it was away").waitFor();
  await page.getByText("Not connected; trying again.").waitFor({ state: "detached" });
  assert.deepEqual(loads, [], "nothing was loaded anew");

  // Who may only look sees the same and finds nothing to press.
  const looking = await login(browser, viewer, complaints, expected);
  await looking.page.getByText("Choose a name").first().waitFor();
  for (const path of ["/", "/board", "/sandboxes", "/gateways", "/settings"]) {
    await looking.page.goto(BASE + path);
    await settled(looking.page);
    const names = await looking.page.locator("main button:visible").allInnerTexts();
    const changing = names.filter((name) => /approve|let it go|comment|stop|start|restart|kill|save|delete|remove|create|request/i.test(name));
    assert.deepEqual(changing, [], `${path} offers a viewer what it refuses`);
  }
  const refused = await looking.page.evaluate(async () => {
    const answer = await fetch("/api/auth/logout-everywhere", { method: "POST", headers: { "content-type": "application/json" }, body: "{}" });
    return [answer.status, (await answer.json()).error];
  });
  assert.deepEqual(refused, [403, "forbidden"]);

  // Two pages of one session: who logs out in one is out in the other.
  const second = await context.newPage();
  await second.goto(`${BASE}/sandboxes`);
  await settled(second);
  await page.getByRole("button", { name: "Log out" }).click();
  await ledToLogin(page);
  assert.equal((await context.cookies()).length, 0, "the cookie is gone");
  await second.getByRole("link", { name: "Board", exact: true }).click();
  await ledToLogin(second);
  await page.goBack();
  await ledToLogin(page);
  assert.equal(await page.getByText("For the first").count(), 0, "going back shows nothing of it");
  // The viewer's session is another one.
  await looking.page.goto(`${BASE}/board`);
  await looking.page.getByText("For the first").waitFor();

  // A link that was used lets nobody in, and the page says what to do.
  const late = await (await browser.newContext()).newPage();
  await late.goto(`${BASE}/login#${operator}`);
  await late.getByText("used already or is older").waitFor();
  await late.getByText("vestal dashboard link").first().waitFor();

  const unexpected = complaints.filter((text) => !/status of 40[134]/.test(text));
  assert.deepEqual(unexpected, []);
});
