// Drives Chromium through the dashboard. The link comes on standard input; what the test has to do
// meanwhile is asked for on standard output.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { mkdtemp, rm } from "node:fs/promises";
import { createInterface } from "node:readline";
import { join } from "node:path";
import { tmpdir } from "node:os";

const require = createRequire(join(process.env.PACKAGES, "node_modules", "x"));
const { chromium } = require("playwright-core");
const axe = require("axe-core").source;
const { BASE, PICTURES } = process.env;

const input = createInterface({ input: process.stdin });
const lines = input[Symbol.asyncIterator]();
const link = (await lines.next()).value;

const PAGES = ["/", "/board", "/conversations", "/chat", "/sandboxes", "/gateways", "/logs", "/settings", "/doctor"];
const SIZES = { desktop: { width: 1280, height: 800 }, phone: { width: 390, height: 844 } };

const profile = await mkdtemp(join(tmpdir(), "vestal-browser-"));
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
  env: { ...process.env, HOME: profile, XDG_CONFIG_HOME: profile, XDG_CACHE_HOME: profile },
});

/** Collects what a page complains about, and refuses any request that leaves the dashboard. */
function watched(page, complaints) {
  page.on("console", (message) => {
    // A 401 of the identity probe is an answer.
    const isProbe = message.location().url.endsWith("/api/auth/me");
    if (message.type() === "error" && !isProbe) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("request", (request) => {
    if (!request.url().startsWith(BASE)) complaints.push(`a request to ${request.url()}`);
  });
}

async function settled(page) {
  await page.waitForSelector("main h1");
  await page.waitForFunction(() => !document.body.innerText.includes("Loading…"));
}

async function examined(context, path, complaints) {
  const page = await context.newPage();
  await page.goto(BASE + path);
  await settled(page);
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  for (const { id, impact, nodes } of violations) {
    if (["serious", "critical"].includes(impact)) complaints.push(`${path}: ${id}: ${nodes[0].html}`);
  }
  await page.close();
}

try {
  const complaints = [];
  const context = await browser.newContext({ viewport: SIZES.desktop });
  const page = await context.newPage();
  watched(page, complaints);

  // Without a session every page is the login.
  await page.goto(`${BASE}/board`);
  assert.equal(new URL(page.url()).pathname, "/login");

  // The link leads in, and leaves no secret in the address.
  await page.goto(`${BASE}/login#${link}`);
  await page.waitForURL(`${BASE}/`);
  await settled(page);
  assert.ok(!page.url().includes(link));
  assert.equal(await page.evaluate(() => document.cookie), "", "no script can read the session");
  await page.getByText("board broken").waitFor();

  // What needs a person is answered in place.
  const card = page.locator("li.needed", { hasText: "Choose a name" });
  await card.getByText("which of the two names is it to be?").waitFor();
  await card.locator("textarea").fill("the second one");
  await card.getByRole("button", { name: "Let it go on" }).click();
  await page.getByText("Nothing waits for you.").waitFor();

  // A change by another process is seen without anybody asking.
  await page.getByRole("link", { name: "Board", exact: true }).click();
  await page.getByRole("heading", { name: "Board", exact: true }).waitFor();
  console.log("make a task");
  await page.getByText("Made a moment ago").waitFor();

  // Hostile text is text.
  await page.getByText("<img src=x onerror").first().waitFor();
  assert.equal(await page.locator("main img").count(), 0);
  assert.equal(await page.title(), "Board · Vestal");

  // Nothing is listened to or asked for while nobody looks; what was missed is there at once after.
  const show = (isHidden) =>
    page.evaluate((hidden) => {
      Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
      document.dispatchEvent(new Event("visibilitychange"));
    }, isHidden);
  const isStream = (request) => request.url().includes("/api/events");
  const closed = Promise.race(["requestfailed", "requestfinished"].map((name) => page.waitForEvent(name, isStream)));
  closed.catch(() => {});
  await show(true);
  await closed;
  let asked = 0;
  page.on("request", () => (asked += 1));
  console.log("make another task");
  await lines.next();
  assert.equal(asked, 0);
  await show(false);
  await page.getByText("Made while nobody looked").waitFor();

  // Every page, on a desktop and a phone, light and dark.
  for (const [size, viewport] of Object.entries(SIZES)) {
    for (const colorScheme of ["light", "dark"]) {
      await page.setViewportSize(viewport);
      await page.emulateMedia({ colorScheme });
      for (const path of PAGES) {
        await page.goto(BASE + path);
        await settled(page);
        const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(overflow <= 0, `${path} is ${overflow} px too wide at ${viewport.width}`);
        if (PICTURES) await page.screenshot({ path: join(PICTURES, `${path.slice(1) || "now"}-${size}-${colorScheme}.png`) });
      }
    }
  }

  // The keyboard is enough, and one sees where it is.
  await page.setViewportSize(SIZES.desktop);
  await page.goto(`${BASE}/`);
  await settled(page);
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.className), "skip");

  // Accessibility. The policy would keep the examiner's own script out.
  const open = await browser.newContext({ viewport: SIZES.desktop, bypassCSP: true, storageState: await context.storageState() });
  for (const path of PAGES) {
    await examined(open, path, complaints);
  }
  await open.close();

  // A session that has ended is found out, once.
  let loads = 0;
  page.on("load", () => (loads += 1));
  console.log("end all sessions");
  await lines.next();
  await page.getByRole("link", { name: "Sandboxes", exact: true }).click();
  // One load may overtake another on the way, which a wait for the navigation would take for a failure.
  const patience = Date.now() + 30_000;
  while (!new URL(page.url()).pathname.startsWith("/login")) {
    assert.ok(Date.now() < patience, page.url());
    await page.waitForTimeout(50);
  }
  assert.ok(loads <= 2, `${loads} loads`);
  const probed = complaints.filter((text) => !text.includes("401"));
  assert.deepEqual(probed, []);
} finally {
  await browser.close();
  await rm(profile, { recursive: true, force: true });
  // Otherwise this process would wait for more of it.
  input.close();
  process.stdin.destroy();
}
