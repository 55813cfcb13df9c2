// A busy year: 10,000 tasks, 10,000 conversations, 200 sandboxes, a log of 100 MB. A page shows a part, says so, and finds the rest.
import assert from "node:assert/strict";
import { BASE, heard, login, settled, story } from "./driver.mjs";

const link = await heard();
const { LAST } = process.env;

/** Elements that a page may have: what is beyond cannot be drawn without a pause. */
const MOST = 6000;

await story(async (browser) => {
  const complaints = [];
  const { page } = await login(browser, link, complaints);
  const bounded = async () => {
    const count = await page.evaluate(() => document.querySelectorAll("*").length);
    assert.ok(count < MOST, `${page.url()} has ${count} elements`);
  };

  await page.goto(`${BASE}/board`);
  await settled(page);
  await page.getByText("Task 00000 of a busy year").waitFor();
  await page.getByText("10000", { exact: false }).first().waitFor();
  await bounded();
  await page.getByLabel("Search").fill("09999");
  await page.getByText("Task 09999 of a busy year").waitFor();
  await page.getByText("Task 00000 of a busy year").waitFor({ state: "detached" });

  await page.goto(`${BASE}/conversations`);
  await settled(page);
  await page.getByText("question 09999").first().waitFor();
  await bounded();
  await page.getByRole("link", { name: "Older", exact: true }).click();
  await page.getByText("question 09949").first().waitFor();
  await page.getByText("question 09999").waitFor({ state: "detached" });
  await page.getByRole("link", { name: "Newest", exact: true }).click();
  await page.getByText("question 09999").first().waitFor();
  await page.getByLabel("Search").fill("04711");
  await page.getByText("question").first().waitFor();
  await page.getByText("question 09999").waitFor({ state: "detached" });

  await page.goto(`${BASE}/logs`);
  await settled(page);
  await page.getByText(`entry ${LAST} of a long log`).waitFor();
  await bounded();

  await page.goto(`${BASE}/sandboxes`);
  await settled(page);
  await bounded();
  await page.getByLabel("Filter").fill("task-177");
  await page.getByRole("link", { name: "task-177", exact: true }).waitFor();
  await page.getByRole("link", { name: "task-001", exact: true }).waitFor({ state: "detached" });

  await page.goto(`${BASE}/`);
  await settled(page);
  await page.getByText("Sandboxes (200 of 200 running)").waitFor();
  await bounded();
  assert.deepEqual(complaints, []);
});
