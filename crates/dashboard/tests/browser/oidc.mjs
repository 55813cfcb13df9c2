// Logs people in at a provider: a stranger, an operator, a viewer, and somebody who changes their mind.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { tmpdir } from "node:os";

const require = createRequire(join(process.env.PACKAGES, "node_modules", "x"));
const { chromium } = require("playwright-core");
const { BASE, ISSUER, PICTURES } = process.env;

const profile = await mkdtemp(join(tmpdir(), "vestal-browser-"));
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
  env: { ...process.env, HOME: profile, XDG_CONFIG_HOME: profile, XDG_CACHE_HOME: profile },
});

/** Opens a browser of somebody, which asks nobody but the dashboard and the provider. */
async function somebody() {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  await context.route(
    (url) => ![BASE, ISSUER].includes(url.origin),
    (route) => route.abort(),
  );
  return { context, page: await context.newPage() };
}

/** Begins at a page of the dashboard and logs in at the provider. */
async function login(page, name, path = "/board") {
  await page.goto(BASE + path);
  assert.equal(new URL(page.url()).pathname, "/login");
  await page.getByRole("button", { name: "Log in at 127.0.0.1" }).click();
  await page.locator("input[name=login]").fill(name);
  await page.locator("input[name=password]").fill("whatever");
  await page.locator("button[type=submit]").click();
  // It asks once whether the dashboard may know who this is.
  await page.getByRole("button", { name: "Continue" }).click();
}

function me(page) {
  return page.evaluate(() => fetch("/api/auth/me").then((response) => response.json()));
}

function post(page, path, body) {
  return page.evaluate(
    ([path, body]) => fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) }).then((response) => response.status),
    [path, body],
  );
}

try {
  // Who is not named stays outside, and is told so; nothing of the attempt stays in the address.
  for (const [name, said] of [["stranger", "stranger@example.org may not use this dashboard"], ["claims-ann", "claims-ann may not use this dashboard"]]) {
    const { context, page } = await somebody();
    await login(page, name);
    await page.getByText(said).waitFor();
    if (PICTURES) await page.screenshot({ path: join(PICTURES, `login-${name}.png`) });
    // The page's module takes the answer of the provider out of the address once it has loaded.
    await page.waitForURL(`${BASE}/login`);
    await page.goto(`${BASE}/board`);
    assert.equal(new URL(page.url()).pathname, "/login");
    await context.close();
  }

  // Who is named comes in, to the page they wanted, with their right.
  const ann = await somebody();
  let answer = "";
  ann.page.on("request", (request) => {
    if (request.url().includes("/login/callback")) answer = request.url();
  });
  await login(ann.page, "ann");
  await ann.page.waitForURL(`${BASE}/board`);
  assert.deepEqual(await me(ann.page), { name: "ann@example.org", right: "operator", method: "oidc" });
  assert.equal(await ann.page.evaluate(() => document.cookie), "", "no script can read the session");
  assert.equal(await post(ann.page, "/api/settings/check", { key: "display.theme", value: "x" }), 200);

  const bob = await somebody();
  await login(bob.page, "bob", "/");
  await bob.page.waitForURL(`${BASE}/`);
  assert.deepEqual(await me(bob.page), { name: "bob", right: "viewer", method: "oidc" });
  assert.equal(await post(bob.page, "/api/settings/check", { key: "display.theme", value: "x" }), 403);

  // The answer of the provider counts once, and in one browser: another cannot use it, nor it again.
  const thief = await somebody();
  await thief.page.goto(answer);
  await thief.page.getByText("this login was not started in this browser").waitFor();
  await ann.context.clearCookies();
  await ann.page.goto(answer);
  await ann.page.getByText("this login was not started in this browser").waitFor();

  // Who says no at the provider is told so in its words.
  const eve = await somebody();
  await eve.page.goto(`${BASE}/login`);
  await eve.page.getByRole("button", { name: "Log in at 127.0.0.1" }).click();
  await eve.page.getByRole("link", { name: "Cancel" }).click();
  await eve.page.getByText("the provider says access_denied").waitFor();
  await ann.context.close();
} finally {
  await browser.close();
  await rm(profile, { recursive: true, force: true });
}
