// Drives Chromium through a conversation. Two links come on standard input: an operator's, a viewer's.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { mkdtemp, rm } from "node:fs/promises";
import { createInterface } from "node:readline";
import { join } from "node:path";
import { tmpdir } from "node:os";

const require = createRequire(join(process.env.PACKAGES, "node_modules", "x"));
const { chromium } = require("playwright-core");
const axe = require("axe-core").source;
const { BASE, HELD, PICTURES } = process.env;

const input = createInterface({ input: process.stdin });
const lines = input[Symbol.asyncIterator]();
const operator = (await lines.next()).value;
const viewer = (await lines.next()).value;

const SIZES = { desktop: { width: 1280, height: 800 }, phone: { width: 390, height: 844 } };
const profile = await mkdtemp(join(tmpdir(), "vestal-browser-"));
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
  env: { ...process.env, HOME: profile, XDG_CONFIG_HOME: profile, XDG_CACHE_HOME: profile },
});

async function login(link, complaints) {
  const context = await browser.newContext({ viewport: SIZES.desktop });
  // So that a test can cut the line.
  await context.addInitScript(() => {
    const Plain = window.WebSocket;
    window.sockets = [];
    window.WebSocket = class extends Plain {
      constructor(...args) {
        super(...args);
        window.sockets.push(this);
      }
    };
  });
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  page.on("console", (message) => {
    const isProbe = message.location().url.endsWith("/api/auth/me");
    if (message.type() === "error" && !isProbe) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("request", (request) => {
    if (!request.url().startsWith(BASE)) complaints.push(`a request to ${request.url()}`);
  });
  await page.goto(`${BASE}/login#${link}`);
  await page.waitForURL(`${BASE}/`);
  return { context, page };
}

try {
  const complaints = [];
  const { context, page } = await login(operator, complaints);
  const say = async (text, button = "Send") => {
    await page.locator(".say textarea").fill(text);
    await page.getByRole("button", { name: button, exact: true }).click();
  };
  const idle = () => page.getByRole("button", { name: "Send", exact: true }).waitFor();
  const answers = () => page.locator(".message.assistant").allInnerTexts();

  // A new conversation gets its address with the first prompt, and goes on under it.
  await page.goto(`${BASE}/conversations`);
  await page.getByRole("link", { name: "New conversation" }).click();
  await page.getByRole("heading", { name: "New conversation" }).waitFor();
  await say("show me markdown");
  await page.locator(".markdown td", { hasText: "a" }).first().waitFor();
  await page.waitForURL(/\/conversations\/default\/.+/);
  await idle();

  // What the model says is elements of ours, and hostile text is text.
  const answer = page.locator(".markdown").first();
  assert.equal(await answer.locator("strong", { hasText: "bold" }).count(), 1);
  assert.equal(await answer.locator("li").count(), 2);
  assert.equal(await answer.locator("pre code").innerText(), "echo <b>x</b>");
  assert.equal(await page.locator("main img").count(), 0);
  assert.ok((await answer.innerText()).includes("<img src=x onerror"));
  const links = await answer.locator("a").evaluateAll((all) => all.map(({ href, rel, target }) => ({ href, rel, target })));
  assert.deepEqual(
    links.map(({ href }) => href),
    ["https://example.org/a", "https://example.org/p.png"],
  );
  for (const { rel, target } of links) assert.ok(rel.includes("noopener") && target === "_blank");

  // Something dangerous is asked about in place.
  await say("remove it");
  await page.getByText("rm -rf ./precious").first().waitFor();
  if (PICTURES) await page.screenshot({ path: join(PICTURES, "chat-approval.png") });
  await page.getByRole("button", { name: "Deny" }).click();
  await page.getByText("that is done").waitFor();
  await idle();
  assert.equal(await page.locator("details.tool").first().getAttribute("open"), null, "tools are folded");

  // Pictures go along, are shown at once, and are there when the page is opened again.
  const dot = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==", "base64");
  const chooser = page.locator(".say input[type=file]");
  await chooser.setInputFiles({ name: "no.svg", mimeType: "image/svg+xml", buffer: Buffer.from("<svg onload=alert(1)>") });
  await page.getByText("no.svg is no picture that models read").waitFor();
  await chooser.setInputFiles({ name: "dot.png", mimeType: "image/png", buffer: dot });
  await page.getByRole("button", { name: "Leave dot.png out" }).waitFor();
  await say("what is on this picture");
  await page.locator(".message.user", { hasText: "what is on this picture" }).locator("canvas.picture").waitFor();
  await idle();
  await page.reload();
  const picture = page.locator(".message.user", { hasText: "what is on this picture" }).locator("img.picture");
  await picture.waitFor();
  await picture.evaluate((one) => one.decode());
  assert.equal(await picture.evaluate((one) => one.naturalWidth), 1);

  // What the model wants to know is asked in place, too.
  await say("which colour");
  await page.getByText("Which colour?").first().waitFor();
  await page.getByRole("button", { name: "blue" }).click();
  await page.getByText("that is done").nth(1).waitFor();
  await idle();

  // The line is lost in the middle of an answer: nothing is missing, nothing is there twice.
  await say("count");
  await page.getByText("word5 ").first().waitFor();
  await page.evaluate(() => window.sockets.at(-1).close());
  await page.getByText("word60").first().waitFor();
  await idle();
  const counted = (await answers()).at(-1);
  assert.deepEqual(counted.match(/word\d+/g), Array.from({ length: 60 }, (_, index) => `word${index + 1}`));
  assert.equal(await page.locator(".message.user", { hasText: "count" }).count(), 1);

  // The last turn is taken back, and its words are there to be said better.
  await say("to be taken back");
  await page.locator(".message.assistant", { hasText: "to be taken back" }).waitFor();
  await idle();
  await page.getByRole("button", { name: "Undo" }).click();
  await page.waitForFunction(() => ![...document.querySelectorAll(".message")].some((one) => one.innerText.includes("to be taken back")));
  assert.equal(await page.locator(".say textarea").inputValue(), "to be taken back");

  // What is said while a turn runs reaches the model.
  await say("count once more");
  await say("and be quick", "Steer");
  await page.locator(".message", { hasText: "and be quick" }).first().waitFor();
  await idle();

  // An answer that does not come is interrupted.
  await say("wait for ever");
  await page.getByRole("button", { name: "Interrupt" }).click();
  await page.getByText("Interrupted.").waitFor();
  await idle();

  // Pictures of it, and whether it fits.
  for (const [size, viewport] of Object.entries(SIZES)) {
    for (const colorScheme of ["light", "dark"]) {
      await page.setViewportSize(viewport);
      await page.emulateMedia({ colorScheme });
      await page.evaluate(() => scrollTo(0, 0));
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(overflow <= 0, `the chat is ${overflow} px too wide at ${viewport.width}`);
      if (PICTURES) await page.screenshot({ path: join(PICTURES, `chat-${size}-${colorScheme}.png`) });
    }
  }
  await page.setViewportSize(SIZES.desktop);

  // A branch is a conversation of its own with what was said.
  const original = page.url();
  await page.getByRole("button", { name: "Branch" }).click();
  await page.waitForFunction((before) => location.href !== before, original);
  await page.locator(".markdown td").first().waitFor();
  const branch = page.url();

  // Accessibility. The policy would keep the examiner's own script out.
  const open = await browser.newContext({ viewport: SIZES.desktop, bypassCSP: true, storageState: await context.storageState() });
  const examined = await open.newPage();
  await examined.goto(branch);
  await examined.locator(".markdown td").first().waitFor();
  await examined.evaluate(axe);
  const { violations } = await examined.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const serious = violations.filter(({ impact }) => ["serious", "critical"].includes(impact));
  assert.deepEqual(serious.map(({ id, nodes }) => `${id}: ${nodes[0].html}`), []);
  await open.close();

  // Who may only look reads it and has nowhere to type.
  const looking = await login(viewer, complaints);
  await looking.page.goto(branch);
  await looking.page.locator(".message").first().waitFor();
  assert.equal(await looking.page.locator("textarea").count(), 0);
  await looking.context.close();

  // What another process has open is read until it is free.
  await page.goto(`${BASE}/conversations/default/${HELD}`);
  await page.getByText("has this conversation open").waitFor();
  await page.getByText("held elsewhere").first().waitFor();
  assert.equal(await page.locator("textarea").count(), 0);
  console.log("let it go");
  await page.locator(".say textarea").waitFor();
  await say("free again");
  await page.locator(".message.assistant", { hasText: "free again" }).waitFor();
  assert.deepEqual(complaints, []);
} finally {
  await browser.close();
  await rm(profile, { recursive: true, force: true });
  // Otherwise this process would wait for more of it.
  input.close();
  process.stdin.destroy();
}
