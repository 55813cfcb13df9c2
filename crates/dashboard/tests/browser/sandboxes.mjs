// A sandbox: terminal, files, long actions, ports.
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ask, BASE, examined, heard, login, PICTURES, settled, SIZES, story } from "./driver.mjs";

const operatorLink = await heard();
const viewerLink = await heard();
const { FILES } = process.env;
const SANDBOX = "/sandboxes/default/web";

/** The text on the screen of a terminal. */
const screen = (page) => page.evaluate(() => [...document.querySelectorAll(".xterm-rows > div")].map((row) => row.textContent.trimEnd()).join("\n"));

async function shows(page, text) {
  await page.waitForFunction((text) => document.querySelector(".xterm-rows")?.textContent.includes(text), text);
}

async function type(page, text) {
  await page.locator(".xterm-helper-textarea").focus();
  await page.keyboard.type(text);
  await page.keyboard.press("Enter");
}

/** Says to the page that it is hidden, or looked at again. */
const show = (page, isHidden) =>
  page.evaluate((hidden) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
    document.dispatchEvent(new Event("visibilitychange"));
  }, isHidden);

async function pictured(page, name) {
  for (const [size, viewport] of Object.entries(SIZES)) {
    for (const colorScheme of ["light", "dark"]) {
      await page.setViewportSize(viewport);
      await page.emulateMedia({ colorScheme });
      await page.waitForTimeout(150);
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(overflow <= 0, `${name} is ${overflow} px too wide at ${viewport.width}`);
      if (PICTURES) await page.screenshot({ path: join(PICTURES, `${name}-${size}-${colorScheme}.png`), fullPage: true });
    }
  }
  await page.setViewportSize(SIZES.desktop);
  await page.emulateMedia({ colorScheme: "light" });
}

await story(async (browser) => {
  const complaints = [];
  // What is refused is an answer of the story.
  const expected = (text) => ["400", "404", "409"].some((status) => text.includes(status));
  const { context, page } = await login(browser, operatorLink, complaints, expected);

  // A shell, which is typed into and answers.
  await page.goto(`${BASE}${SANDBOX}/terminal`);
  await settled(page);
  await page.getByRole("button", { name: "New terminal" }).click();
  await page.waitForURL(/\/terminal\/j-/);
  await page.waitForSelector(".xterm-rows");
  await type(page, "PS1='$ '; cd; echo sum-$((40+2))");
  await shows(page, "sum-42");

  // Colours are drawn although no style is text.
  await type(page, "printf '\\033[38;2;255;0;0mred\\033[0m plain\\n'");
  await shows(page, "red plain");
  const colours = await page.evaluate(() => [...document.querySelectorAll(".xterm-rows span")].filter((span) => span.textContent === "red").map((span) => getComputedStyle(span).color));
  assert.ok(colours.length > 0 && colours.every((colour) => /^rgb\((1[5-9]\d|2\d\d), /.test(colour)), `${colours}`);

  // What a program says does nothing but be seen: no title, no clipboard, no link that opens itself.
  await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: BASE });
  await page.evaluate(() => navigator.clipboard.writeText("mine"));
  await type(page, "printf '\\033]0;owned\\007\\033]2;owned\\007\\033]52;c;b3duZWQ=\\007\\033]8;;https://evil.example/\\033\\\\click\\033]8;;\\033\\\\ harmless-%s\\n' $((1+1))");
  await shows(page, "harmless-2");
  assert.equal(await page.title(), "Terminal · Vestal");
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "mine");
  const link = page.locator(".xterm-rows span", { hasText: /^click$/ }).last();
  const { x, y, width, height } = await link.boundingBox();
  // The screen lies over its rows.
  await page.mouse.move(x + width / 2, y + height / 2, { steps: 3 });
  await page.mouse.click(x + width / 2, y + height / 2);
  const dialog = page.getByRole("dialog", { name: "A link" });
  await dialog.getByText("https://evil.example/").waitFor();
  await dialog.getByRole("button", { name: "Cancel" }).click();
  assert.equal(context.pages().length, 1);

  // While nobody looks nothing is sent; what was printed meanwhile is there after, once.
  await type(page, "for i in 1 2 3 4 5 6; do sleep 0.3; echo tick-$i-$((i*7)); done");
  await shows(page, "tick-1-7");
  await show(page, true);
  await page.waitForTimeout(2500);
  await show(page, false);
  await shows(page, "tick-6-42");
  const ticks = (await screen(page)).match(/^tick-\d-\d+$/gm);
  assert.deepEqual(ticks, [1, 2, 3, 4, 5, 6].map((i) => `tick-${i}-${i * 7}`));

  // A page that was closed finds the shell as it was left.
  await type(page, "answer=still-here; echo kept-$((4+4))");
  await shows(page, "kept-8");
  await page.reload();
  await shows(page, "tick-6-42");
  await type(page, "echo $answer-$((2+3))");
  await shows(page, "still-here-5");
  await pictured(page, "terminal");

  // A flood is as fast as the page, and ends when it is told to.
  await type(page, "yes flood | head -c 3000000; echo over-$((6*6))");
  await shows(page, "over-36");

  // Several at once; each ends with its shell.
  const first = page.url();
  await page.getByRole("button", { name: "New terminal" }).click();
  await page.waitForURL((url) => url.href !== first && /terminal\/j-/.test(url.pathname));
  await page.waitForSelector(".xterm-rows");
  await page.locator(".terminal-tabs a").nth(1).waitFor();
  await type(page, "exit");
  await page.getByText("The shell has ended").waitFor();
  await page.goto(first);
  await page.waitForSelector(".xterm-rows");

  // Files: hostile names are text, documents are downloads.
  await page.goto(`${BASE}${SANDBOX}/files?path=${encodeURIComponent(FILES)}`);
  await settled(page);
  await page.getByRole("link", { name: "notes.txt", exact: true }).waitFor();
  await page.getByText("<img src=x onerror=alert(1)>.html").first().waitFor();
  assert.equal(await page.locator("main img").count(), 0);
  await pictured(page, "files");
  const served = await page.evaluate(async (path) => {
    const answer = await fetch(`/api/sandboxes/default/web/files/download?path=${encodeURIComponent(path)}`);
    return Object.fromEntries(["content-type", "content-disposition", "x-content-type-options"].map((name) => [name, answer.headers.get(name)]));
  }, `${FILES}/<img src=x onerror=alert(1)>.html`);
  assert.equal(served["content-type"], "application/octet-stream");
  assert.ok(served["content-disposition"].startsWith("attachment; filename*=UTF-8''%3Cimg%20src"), served["content-disposition"]);
  assert.equal(served["x-content-type-options"], "nosniff");
  const svg = await page.evaluate(async (path) => (await fetch(`/api/sandboxes/default/web/files/picture?path=${encodeURIComponent(path)}`)).status, `${FILES}/picture.svg`);
  assert.equal(svg, 400);
  await page.getByRole("link", { name: "picture.png", exact: true }).click();
  await page.waitForFunction(() => document.querySelector("img.shown-picture")?.naturalWidth === 1);
  await page.goBack();

  // A text is changed; what somebody else has changed is not lost unasked.
  await page.getByRole("link", { name: "notes.txt", exact: true }).click();
  const editor = page.getByLabel("Text of notes.txt");
  await editor.fill("second\n");
  await page.keyboard.press("Control+s");
  await page.getByText("saved, 7 B").waitFor();
  assert.equal(await readFile(join(FILES, "notes.txt"), "utf8"), "second\n");
  await ask("change the notes");
  await editor.fill("third\n");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByText("it was changed since it was opened").waitFor();
  assert.equal(await readFile(join(FILES, "notes.txt"), "utf8"), "changed by somebody else\n");
  await pictured(page, "file");
  await page.getByRole("button", { name: "Save over it" }).click();
  await page.getByText("saved, 6 B").waitFor();

  // A large file goes in and comes out as it was.
  const large = Buffer.alloc(5_000_000, "0123456789abcdef\u0000\u00ff", "latin1");
  await writeFile("large.bin", large);
  await page.goto(`${BASE}${SANDBOX}/files?path=${encodeURIComponent(FILES)}`);
  await page.locator('input[type="file"]').setInputFiles("large.bin");
  await page.getByText("uploaded, 4.8 MiB").waitFor();
  const coming = page.waitForEvent("download");
  await page.getByRole("link", { name: "Download large.bin" }).click();
  const file = await (await coming).path();
  assert.ok(large.equals(await readFile(file)), "every byte");
  await page.locator('input[type="file"]').setInputFiles("large.bin");
  await page.getByRole("button", { name: "Replace it" }).click();
  await page.getByText("uploaded, 4.8 MiB").nth(1).waitFor();

  // The overview: what it consumes, and what listens in it.
  await page.goto(BASE + SANDBOX);
  await settled(page);
  await page.getByText("Consumption").waitFor();
  const ports = page.locator("section", { hasText: "Ports" });
  await ports.getByText("127.0.0.1").waitFor();
  await page.waitForFunction(() => document.querySelector(".spark .stroke"));
  await pictured(page, "sandbox");

  // A preview is of another site: it has no cookie of the dashboard, and can do nothing to it.
  const opening = context.waitForEvent("page");
  await ports.getByRole("button", { name: "Preview" }).click();
  const preview = await opening;
  await preview.waitForSelector("#asked");
  const asked = JSON.parse(await preview.locator("#asked").innerText());
  assert.ok(!JSON.stringify(asked).includes("vestal_"), JSON.stringify(asked));
  assert.match(asked.host, /^localhost:\d+$/);
  assert.equal(new URL(preview.url()).pathname, "/", "the ticket is not in the address");
  assert.equal(await preview.evaluate(() => window.opener), null);
  const reached = await preview.evaluate(async (base) => {
    const attempts = [
      fetch(`${base}/api/sandboxes`, { credentials: "include" }).then((answer) => answer.status),
      fetch(`${base}/api/sandboxes/default/web/stop`, { method: "POST", mode: "no-cors", credentials: "include", body: "{}" }).then((answer) => answer.type),
    ];
    return (await Promise.allSettled(attempts)).map((one) => (one.status === "fulfilled" ? one.value : "refused"));
  }, BASE);
  assert.equal(reached[0], "refused", "it reads nothing; that it changes nothing is seen below");
  await preview.reload();
  await preview.waitForSelector("#asked");
  const again = JSON.parse(await preview.locator("#asked").innerText());
  assert.equal(again.cookie, "app=1; wide=1", "its own cookies, of this host alone");
  const names = (await context.cookies(BASE)).map(({ name }) => name);
  assert.ok(names.every((name) => !/_x$|_y$|^wide$/.test(name)), names.join());
  const other = await browser.newContext();
  const stranger = await other.newPage();
  assert.equal((await stranger.goto(preview.url())).status(), 401, "an address alone lets nobody in");
  await other.close();
  await preview.close();
  await page.reload();
  await settled(page);
  await page.getByText("running", { exact: true }).first().waitFor();

  // What an action takes is said first. One that fails says why, and is found again on another page.
  await page.getByRole("button", { name: "Snapshot" }).click();
  const plan = page.getByRole("dialog", { name: "Keep a copy" });
  await plan.getByText("workspace, home and installed software are copied").waitFor();
  await plan.getByRole("button", { name: "Snapshot" }).click();
  await page.getByText("there is nothing to copy").waitFor();
  await page.goto(`${BASE}/sandboxes`);
  await page.getByText("there is nothing to copy").waitFor();
  await pictured(page, "sandboxes");
  for (const path of [SANDBOX, `${SANDBOX}/files?path=${encodeURIComponent(FILES)}`, new URL(first).pathname]) {
    complaints.push(...(await examined(browser, context, path)));
  }

  // A viewer looks, and types nothing.
  const viewer = await login(browser, viewerLink, complaints, expected);
  await viewer.page.goto(first);
  await viewer.page.getByText("What its shell prints").waitFor();
  assert.equal(await viewer.page.getByRole("button", { name: "New terminal" }).count(), 0);
  await viewer.context.close();

  // The removal says what goes, and is done when the page is gone.
  await page.goto(BASE + SANDBOX);
  await page.getByRole("button", { name: "Remove" }).click();
  const removal = page.getByRole("dialog", { name: "Remove the sandbox" });
  await removal.getByText("shell sessions and job logs will be removed").waitFor();
  await removal.getByRole("button", { name: "Remove" }).click();
  await page.goto(`${BASE}/sandboxes`);
  await page.getByText("removed web").waitFor();
  assert.deepEqual(complaints, []);
});
