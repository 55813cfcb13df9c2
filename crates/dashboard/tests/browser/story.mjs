// Drives Chromium through the dashboard. The link comes on standard input; what the test has to do
// meanwhile is asked for on standard output.
import assert from "node:assert/strict";
import { join } from "node:path";
import { ask, BASE, everyPage, examined, heard, ledToLogin, PICTURES, settled, SIZES, story, watched } from "./driver.mjs";

const link = await heard();

/** Names what reaches furthest to the right. */
function widest() {
  const all = [...document.querySelectorAll("#app *")].map((one) => [one.getBoundingClientRect().right, one]);
  const [, found] = all.reduce((most, one) => (one[0] > most[0] ? one : most));
  return found.outerHTML.slice(0, 200);
}

await story(async (browser) => {
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
  await ask("make another task");
  assert.equal(asked, 0);
  await show(false);
  await page.getByText("Made while nobody looked").waitFor();

  // Every page that the menu leads to, on a desktop and a phone, light and dark.
  const paths = await everyPage(page);
  for (const path of paths) {
    await page.setViewportSize(SIZES.desktop);
    await page.goto(BASE + path);
    await settled(page);
    for (const [size, viewport] of Object.entries(SIZES)) {
      await page.setViewportSize(viewport);
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      if (overflow > 0) complaints.push(`${path} is ${overflow} px too wide at ${viewport.width}: ${await page.evaluate(widest)}`);
      for (const colorScheme of PICTURES ? ["light", "dark"] : []) {
        await page.emulateMedia({ colorScheme });
        await page.screenshot({ path: join(PICTURES, `${path.slice(1) || "now"}-${size}-${colorScheme}.png`) });
      }
    }
  }

  // The keyboard is enough, and one sees where it is.
  await page.setViewportSize(SIZES.desktop);
  await page.goto(`${BASE}/`);
  await settled(page);
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.className), "skip");

  // Accessibility.
  for (const path of paths) complaints.push(...(await examined(browser, context, path)));

  // A session that has ended is found out, once.
  let loads = 0;
  page.on("load", () => (loads += 1));
  await ask("end all sessions");
  await page.getByRole("link", { name: "Sandboxes", exact: true }).click();
  await ledToLogin(page);
  assert.ok(loads <= 2, `${loads} loads`);
  const probed = complaints.filter((text) => !text.includes("401"));
  assert.deepEqual(probed, []);
});
