// The board: moves by keyboard and by drag, filters in the address, the log of a task, and the review of a diff:
// comments on lines that survive a reload and reach the next attempt; a merge that says what is in its way.
import assert from "node:assert/strict";
import { join } from "node:path";
import { ask, BASE, examined, heard, login, PICTURES, settled, SIZES, story } from "./driver.mjs";

const [operator, viewer] = [await heard(), await heard()];
const { REVIEWED, MERGED } = process.env;
const complaints = [];
// A merge that is not possible is an answer.
const expected = (text) => /status of 409/.test(text);

await story(async (browser) => {
  const { context, page } = await login(browser, operator, complaints, expected);
  const tile = (title) => page.locator("li.tile", { hasText: title });
  const column = (name) => page.getByRole("region", { name, exact: true });

  // By keyboard: the button of a tile, a column, a reason.
  await page.goto(`${BASE}/board`);
  await tile("Move me by keyboard").getByRole("button", { name: "Move Move me by keyboard" }).focus();
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Move it to").selectOption("blocked");
  await dialog.getByRole("textbox").fill("waits for the paint");
  await dialog.getByRole("button", { name: "Block it" }).press("Enter");
  await column("blocked").getByText("Move me by keyboard").waitFor();
  await column("blocked").getByText("waits for the paint").waitFor();

  // By drag: only columns that it can go to take it, and what is done is said before it is.
  await tile("Drag me").dragTo(column("done"));
  await dialog.getByRole("button", { name: "It is done" }).click();
  await column("done").getByText("Drag me").waitFor();

  // Filters are in the address, so they can be sent to somebody.
  await page.getByLabel("Search").fill("hello");
  await page.waitForURL(/search=hello/);
  await page.getByText("Add a file").waitFor({ state: "detached" });
  await page.reload();
  await page.getByText("Say hello to somebody").waitFor();
  assert.equal(await page.getByText("Add a file").count(), 0);
  await page.getByLabel("Search").fill("");
  await page.getByLabel("dispatch plan").check();
  await page.waitForURL(/plan=1/);
  await page.getByText("What a dispatcher would do now").waitFor();

  // The task: attempts as columns, and its log as it grows.
  await page.getByRole("link", { name: "Say hello to somebody" }).click();
  await page.getByRole("heading", { name: "Attempts (1)" }).waitFor();
  await page.getByText("it is done, I think", { exact: true }).waitFor();
  await page.getByRole("button", { name: /^Show/ }).click();
  await page.getByText("the worker begins").waitFor();
  await ask("write to the log");
  await page.getByText("and goes on").waitFor();

  // The review: hostile names and lines are text.
  await page.getByRole("link", { name: "Review the changes" }).click();
  await page.getByRole("heading", { name: "src/main.rs" }).waitFor();
  await page.getByText("<img src=x onerror=alert(1)>").first().waitFor();
  await page.getByText("<b>bold<.txt").first().waitFor();
  await page.getByText("<script>alert(1)</script>").first().waitFor();
  assert.equal(await page.locator("main img, main script, main b").count(), 0);

  // A comment by keyboard; it survives a reload.
  const file = page.getByRole("region", { name: "src/main.rs" });
  await file.locator("button.number").first().focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), "Comment on line 2 of src/main.rs");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.activeElement.matches(".remarks textarea"));
  await page.keyboard.type("greet by name");
  await page.keyboard.press("Control+Enter");
  await file.getByText("greet by name").waitFor();
  await page.reload();
  await page.getByRole("region", { name: "src/main.rs" }).getByText("greet by name").waitFor();
  await page.getByRole("button", { name: "Side by side" }).click();
  await page.waitForURL(/view=split/);
  await page.locator(".lines.split .row").first().waitFor();
  await page.getByText("greet by name").waitFor();
  if (PICTURES) await page.screenshot({ path: join(PICTURES, "review-split.png") });
  await page.getByRole("button", { name: "Unified" }).click();
  if (PICTURES) await page.screenshot({ path: join(PICTURES, "review-unified.png") });

  // A download is what git takes.
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "Download as a patch" }).click()]);
  assert.equal(download.suggestedFilename(), `${REVIEWED}.patch`);

  // Sent back, worked on again, and both attempts can be looked at.
  await page.getByLabel("About the work as a whole").fill("Nearly there.");
  await page.getByRole("button", { name: "Request changes (1)" }).click();
  await page.getByText("sent back; the next attempt is told").waitFor();
  await ask("work again");
  await page.getByLabel("Changes of").selectOption({ label: "attempt 2, default, submitted" });
  await page.waitForURL(/attempt=/);
  await page.getByText("1 file", { exact: false }).first().waitFor();
  await page.getByRole("heading", { name: "src/main.rs" }).waitFor({ state: "detached" });

  // A merge says what is in its way and changes nothing; then it is done.
  await page.goto(`${BASE}/board/default/${MERGED}/review`);
  await page.getByRole("heading", { name: "added.txt" }).waitFor();
  await ask("conflict");
  await page.getByRole("button", { name: "Merge…" }).click();
  await page.getByText("This cannot be merged.").waitFor();
  await page.getByText(/has changes of its own to files that would change: added.txt/).waitFor();
  assert.ok(await page.getByRole("dialog").getByRole("button", { name: "Merge" }).isDisabled());
  await page.keyboard.press("Escape");
  await ask("no conflict");
  await page.getByRole("button", { name: "Merge…" }).click();
  await page.getByText(/1 file changes on main/).waitFor();
  if (PICTURES) await page.screenshot({ path: join(PICTURES, "merge.png") });
  await page.getByRole("dialog").getByRole("button", { name: "Merge" }).click();
  await page.getByText(/merged into main as [0-9a-f]{12}; the task is done/).waitFor();

  // A task without a working tree says so.
  await page.goto(`${BASE}/board?search=Drag`);
  await page.getByRole("link", { name: "Drag me" }).click();
  await page.getByRole("heading", { name: "Drag me" }).waitFor();
  await page.goto(`${page.url()}/review`.replace(/\?[^/]*/, ""));
  await page.getByText("There are no changes to look at").waitFor();

  // Somebody who asked for it is told while they look elsewhere, and of nothing that was there before.
  await context.grantPermissions(["notifications"]);
  await page.goto(`${BASE}/`);
  await page.evaluate(() => {
    window.told = [];
    window.Notification = class extends Notification {
      constructor(title, options) {
        super(title, options);
        window.told.push(`${title}: ${options.body}`);
      }
    };
  });
  const begun = page.waitForResponse((response) => response.url().endsWith("/api/notices"));
  await page.getByLabel(/notify me/).check();
  await begun;
  await page.evaluate(() => Object.defineProperty(document, "hidden", { configurable: true, get: () => true }));
  await ask("ask a person");
  await page.waitForFunction(() => window.told.length > 0);
  assert.deepEqual(await page.evaluate(() => window.told), ["Choose a colour: red or blue?"]);

  // Who may only look finds nothing to press.
  const looking = await login(browser, viewer, complaints, (text) => /status of 404/.test(text));
  await looking.page.goto(`${BASE}/board/default/${REVIEWED}/review`);
  await looking.page.getByRole("heading", { name: "src/main.rs" }).waitFor();
  assert.equal(await looking.page.locator("button.number").count(), 0);
  assert.equal(await looking.page.getByRole("button", { name: /Merge|Approve|Request|Comment/ }).count(), 0);
  await looking.context.close();

  // On a phone, light and dark, nothing is too wide; and nothing is seriously wrong for people who use no mouse.
  const paths = ["/", "/board?plan=1", `/board/default/${REVIEWED}`, `/board/default/${REVIEWED}/review?view=unified`, `/board/default/${REVIEWED}/review?view=split`, "/usage"];
  for (const [size, viewport] of Object.entries(SIZES)) {
    for (const colorScheme of ["light", "dark"]) {
      await page.setViewportSize(viewport);
      await page.emulateMedia({ colorScheme });
      for (const [at, path] of paths.entries()) {
        await page.goto(BASE + path);
        await settled(page);
        const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        if (PICTURES) await page.screenshot({ path: join(PICTURES, `board-${at}-${size}-${colorScheme}.png`), fullPage: true });
        assert.ok(overflow <= 0, `${path} is ${overflow} px too wide at ${viewport.width}`);
      }
    }
  }
  for (const path of paths) complaints.push(...(await examined(browser, context, path)));
  assert.deepEqual(complaints.filter((text) => !/status of 404/.test(text)), []);
});
