// What every story needs: a browser of its own, pages that complain, words from and to the test.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { mkdtemp, rm } from "node:fs/promises";
import { createInterface } from "node:readline";
import { join } from "node:path";
import { tmpdir } from "node:os";

const require = createRequire(join(process.env.PACKAGES, "node_modules", "x"));
const { chromium } = require("playwright-core");
const axe = require("axe-core").source;

export const { BASE, PICTURES } = process.env;
export const SIZES = { desktop: { width: 1280, height: 800 }, phone: { width: 390, height: 844 } };

const input = createInterface({ input: process.stdin });
const lines = input[Symbol.asyncIterator]();

/** Returns the next line that the test says. */
export const heard = async () => (await lines.next()).value;

/** Asks the test for something and waits until it is done. */
export async function ask(what) {
  console.log(what);
  assert.equal(await heard(), "done", what);
}

/** Tells a story with a browser, and leaves nothing of it behind. */
export async function story(tell) {
  const profile = await mkdtemp(join(tmpdir(), "vestal-browser-"));
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
    env: { ...process.env, HOME: profile, XDG_CONFIG_HOME: profile, XDG_CACHE_HOME: profile },
  });
  try {
    await tell(browser);
  } finally {
    await browser.close();
    await rm(profile, { recursive: true, force: true });
    // Otherwise this process would wait for more of it.
    input.close();
    process.stdin.destroy();
  }
}

/**
 * Collects what a page complains about, and any request that leaves the dashboard. `expected` are answers that a
 * browser reports as errors and that belong to the story.
 */
export function watched(page, complaints, expected = () => false) {
  page.on("console", (message) => {
    // A 401 of the identity probe is an answer.
    const isProbe = message.location().url.endsWith("/api/auth/me");
    if (message.type() === "error" && !isProbe && !expected(message.text())) complaints.push(`${page.url()}: ${message.text()}`);
  });
  page.on("pageerror", (error) => complaints.push(`${page.url()}: ${error.stack ?? error}`));
  page.on("dialog", (dialog) => {
    complaints.push(`${page.url()}: a dialog says ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(`${BASE}/`) && !url.startsWith("blob:")) complaints.push(`a request to ${url}`);
  });
}

/** Waits until a page shows what it has loaded. */
export async function settled(page) {
  await page.waitForSelector("main h1");
  await page.waitForFunction(() => !document.body.innerText.includes("Loading…"));
}

/** Returns the addresses of all pages that the menus lead to, so that a new page is among them. */
export async function everyPage(page) {
  await page.goto(`${BASE}/settings`);
  await settled(page);
  const links = page.locator("nav a[href^='/']");
  const found = await links.evaluateAll((all) => all.map((one) => one.getAttribute("href")));
  assert.ok(found.length >= 15, `${found}`);
  return [...new Set([...found, "/chat"])];
}

/** Logs in by a link, in a context of its own. */
export async function login(browser, link, complaints, expected) {
  const context = await browser.newContext({ viewport: SIZES.desktop });
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  watched(page, complaints, expected);
  await page.goto(`${BASE}/login#${link}`);
  await page.waitForURL(`${BASE}/`);
  await settled(page);
  return { context, page };
}

/**
 * Waits until a page has been led to the login. One load may overtake another on the way, which a wait for the
 * navigation would take for a failure.
 */
export async function ledToLogin(page) {
  const deadline = Date.now() + 30_000;
  while (!new URL(page.url()).pathname.startsWith("/login")) {
    assert.ok(Date.now() < deadline, page.url());
    await page.waitForTimeout(50);
  }
}

/** The page of each session in which pages are examined: one that has everything loaded already. */
const examiners = new WeakMap();

async function examiner(browser, context) {
  if (!examiners.has(context)) {
    // The policy would keep the examiner's own script out.
    const open = await browser.newContext({ viewport: SIZES.desktop, bypassCSP: true, storageState: await context.storageState() });
    examiners.set(context, await open.newPage());
  }
  return examiners.get(context);
}

/** Says what is seriously wrong with a page for people who do not see it or use no mouse. */
export async function examined(browser, context, path) {
  const page = await examiner(browser, context);
  await page.goto(BASE + path);
  await settled(page);
  await page.evaluate(axe);
  const found = [];
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
    const serious = violations.filter(({ impact }) => ["serious", "critical"].includes(impact));
    found.push(...serious.map(({ id, nodes }) => `${path}, ${colorScheme}: ${id}: ${nodes[0].html}`));
  }
  return found;
}
