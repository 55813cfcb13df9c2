// Copies of a sandbox: kept, gone back to, forked; and the sandbox made anew. Each says first what it takes, and is
// found done on another page.
import assert from "node:assert/strict";
import { ask, BASE, heard, login, settled, story } from "./driver.mjs";

const link = await heard();
const SANDBOX = "/sandboxes/default/web";

await story(async (browser) => {
  const complaints = [];
  // While its instance is replaced, a page that asks a sandbox gets no answer, and asks again at the next change.
  const { page } = await login(browser, link, complaints, (text) => /status of 503/.test(text));

  /** Opens a dialog, reads what it says, fills it in, and begins. */
  const begin = async (button, title, words, fill = async () => {}) => {
    await page.goto(BASE + SANDBOX);
    await settled(page);
    await button().click();
    const dialog = page.getByRole("dialog", { name: title });
    await dialog.getByText(words).waitFor();
    await fill(dialog);
    await dialog.locator('button[type="submit"]').click();
    await dialog.waitFor({ state: "hidden" });
  };
  const named = (name) => () => page.getByRole("button", { name, exact: true }).first();
  const done = async (words) => {
    await page.goto(`${BASE}/sandboxes`);
    const operations = page.locator("section", { hasText: "Long actions" });
    await operations.getByText(words).first().waitFor();
  };

  await begin(named("Snapshot"), "Keep a copy", "workspace, home and installed software are copied", async (dialog) => {
    await dialog.getByLabel("Name").fill("good");
    await dialog.getByLabel("A line to remember it by").fill("<b>before</b> it went wrong");
  });
  await done("saved web as good");
  await ask("spoil the file");

  await begin(() => page.locator("tr, li", { hasText: "good" }).getByRole("button", { name: "Restore", exact: true }), "Go back to a snapshot", /replaces workspace, home/);
  await done("restored web to good");
  await ask("look at the file");

  await begin(named("Fork"), "Make a new sandbox as a copy", /workspace/, (dialog) => dialog.getByLabel("Task of the new sandbox").fill("copy"));
  await done("forked web to copy on native");
  await page.getByRole("link", { name: "copy", exact: true }).first().waitFor();
  await ask("look at the copy");

  await begin(named("Rebuild"), "Make it anew with the current settings", /kept: workspace, home/);
  await done("rebuilt web on native");
  await ask("look at the file");

  await page.goto(BASE + SANDBOX);
  await settled(page);
  await page.getByText("<b>before</b> it went wrong").first().waitFor();
  await begin(() => page.locator("tr, li", { hasText: "good" }).getByRole("button", { name: "Delete", exact: true }), "Delete a snapshot", /will be deleted/);
  await done("removed snapshot good of web");
  assert.deepEqual(complaints, []);
});
