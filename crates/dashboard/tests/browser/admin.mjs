// Manages a home as an operator does: settings, keys, schedules, profiles, skills, notes, servers. The
// link comes on standard input; what the test has to do meanwhile is asked for on standard output.
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
const answers = input[Symbol.asyncIterator]();
const link = (await answers.next()).value;

/** Has the test do something, and waits until it is done. */
async function ask(what) {
  console.log(what);
  return (await answers.next()).value;
}

const profile = await mkdtemp(join(tmpdir(), "vestal-browser-"));
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
  env: { ...process.env, HOME: profile, XDG_CONFIG_HOME: profile, XDG_CACHE_HOME: profile },
});

const complaints = [];

/** Looks at a page as it is now: no violation, nothing beyond the edge of a phone, a picture if wanted. */
async function looked(page, name) {
  for (const [size, viewport] of [["phone", { width: 390, height: 844 }], ["desktop", { width: 1280, height: 800 }]]) {
    await page.setViewportSize(viewport);
    const wide = await page.evaluate(() => {
      const sticksOut = (one) => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest(".log, nav, dialog:not([open])");
      return document.documentElement.scrollWidth > innerWidth ? [...document.querySelectorAll("main *")].filter(sticksOut).map((one) => one.outerHTML.slice(0, 120)) : [];
    });
    assert.deepEqual(wide, [], `${name} is too wide at ${viewport.width}`);
    for (const colorScheme of PICTURES ? ["light", "dark"] : []) {
      await page.emulateMedia({ colorScheme });
      await page.screenshot({ path: join(PICTURES, `${name}-${size}-${colorScheme}.png`) });
    }
  }
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  for (const { id, impact, nodes } of violations) {
    if (["serious", "critical"].includes(impact)) complaints.push(`${name}: ${id}: ${nodes[0].html}`);
  }
}

try {
  // The policy would keep the examiner's own script out.
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, bypassCSP: true });
  const page = await context.newPage();
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("request", (request) => {
    if (!request.url().startsWith(BASE)) complaints.push(`a request to ${request.url()}`);
  });
  await page.goto(`${BASE}/login#${link}`);
  await page.waitForURL(`${BASE}/`);

  // A setting: what is wrong is said while it is typed, what is right is written.
  await page.getByRole("link", { name: "Settings", exact: true }).first().click();
  await page.getByLabel("Filter").fill("agent.max_turns");
  await page.getByRole("button", { name: "Change agent.max_turns" }).click();
  const value = page.getByRole("textbox", { name: "agent.max_turns" });
  await value.fill("many");
  await page.getByRole("alert").filter({ hasText: "agent.max_turns" }).waitFor();
  assert.ok(await page.getByRole("button", { name: "Save" }).isDisabled());
  await looked(page, "settings-form");
  await value.fill("9");
  await page.getByRole("button", { name: "Save" }).click();
  await page.locator("[id='agent.max_turns']").getByText("9", { exact: true }).waitFor();

  // The file: no secret, comments stay, and what another wrote meanwhile is not written over.
  await page.getByRole("navigation", { name: "Views" }).getByRole("link", { name: "File" }).click();
  const file = page.getByRole("textbox", { name: "config.yaml" });
  await file.waitFor();
  assert.equal(await file.inputValue(), "# mine\nmodel:\n  api_key: <secret 1>\nagent:\n  max_turns: 9\n");
  await file.fill("# mine\nmodel:\n  api_key: <secret 1>\nagent:\n  max_turns: 10 # more\n");
  await page.getByRole("button", { name: "Check" }).click();
  await page.getByText("Nothing is wrong with it.").or(page.getByText("It can be written.")).waitFor();
  await looked(page, "settings-file");
  await page.getByRole("button", { name: "Write" }).click();
  await page.getByText("Written.").waitFor();
  assert.equal(await ask("config"), JSON.stringify("# mine\nmodel:\n  api_key: sk-of-the-model\nagent:\n  max_turns: 10 # more\n"));
  await file.fill("# lost?\n");
  await ask("change the config");
  await page.getByText("The file was changed by somebody else.").waitFor();
  await page.getByRole("button", { name: "Write" }).click();
  await page.getByText("was changed by another process since it was read").waitFor();
  assert.equal(await file.inputValue(), "# lost?\n", "what was typed stays");

  // Keys are written and not read, but on request.
  await page.getByRole("link", { name: "Keys", exact: true }).click();
  await page.getByRole("heading", { name: "Keys" }).waitFor();
  await page.getByRole("button", { name: "Add a key" }).click();
  await page.getByLabel("Name of the variable").fill("WIKI_TOKEN");
  await page.getByLabel("Value").fill("sk-of-the-wiki");
  await page.getByRole("button", { name: "Save" }).click();
  const key = page.locator("li.key", { hasText: "WIKI_TOKEN" });
  await key.getByText("set", { exact: true }).waitFor();
  assert.ok(!(await page.content()).includes("sk-of-the-wiki"));
  await looked(page, "keys");
  await key.getByRole("button", { name: "Show" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Show" }).click();
  await key.getByText("sk-of-the-wiki").waitFor();
  await key.getByRole("button", { name: "Hide" }).click();

  // A schedule.
  await page.getByRole("link", { name: "Schedules", exact: true }).click();
  await page.getByText("Nothing is scheduled.").waitFor();
  await page.getByRole("button", { name: "New schedule" }).click();
  await page.getByLabel("When").fill("every now and then");
  await page.getByLabel("What the agent is asked").fill("<b>are</b> the mirrors up?");
  await looked(page, "schedule-form");
  await page.getByRole("button", { name: "Create" }).click();
  await page.getByRole("dialog").locator(".bad-text").filter({ hasText: "every now and then" }).waitFor();
  await page.getByLabel("When").fill("every 2h");
  await page.getByRole("button", { name: "Create" }).click();
  await page.getByRole("link", { name: "<b>are</b> the mirrors up?" }).click();
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByText("paused", { exact: true }).waitFor();
  await page.getByText("Nobody runs the schedules of").waitFor();
  await looked(page, "schedule");
  await page.getByRole("link", { name: "Schedules", exact: true }).first().click();
  await looked(page, "schedules");

  // A profile is cloned, and deleted only by its name.
  await page.goto(`${BASE}/profiles`);
  await page.getByRole("button", { name: "New profile" }).click();
  await page.getByLabel("Name").fill("work");
  await page.getByLabel("Begins with").selectOption("default");
  await page.getByRole("button", { name: "Create" }).click();
  const work = page.locator("li", { hasText: "profiles/work" });
  await work.getByRole("button", { name: "Delete" }).click();
  const sure = page.getByRole("dialog").getByRole("button", { name: "Delete" });
  await page.getByLabel("Write work to delete it").fill("wor");
  assert.ok(await sure.isDisabled());
  await looked(page, "profile-delete");
  await page.getByLabel("Write work to delete it").fill("work");
  await sure.click();
  await work.waitFor({ state: "detached" });
  await looked(page, "profiles");

  // Filters of skills follow what is there.
  await page.goto(`${BASE}/skills`);
  await page.getByText("No skill is installed.").waitFor();
  await ask("install a skill");
  await page.getByRole("link", { name: "pdf-forms" }).waitFor();
  await page.getByLabel("Category").selectOption("office");
  await page.getByRole("button", { name: "Disable" }).click();
  await page.getByLabel("State").selectOption("disabled");
  await page.getByRole("link", { name: "pdf-forms" }).waitFor();
  await looked(page, "skills");
  await page.getByRole("button", { name: "Enable" }).click();
  await page.getByText("No skill matches.").waitFor();

  // Notes, with their size.
  await page.goto(`${BASE}/memory`);
  await page.getByRole("button", { name: "Edit" }).first().click();
  await page.getByRole("textbox", { name: "The agent's own" }).fill("x".repeat(3000));
  await page.getByText("3000 of ").waitFor();
  await page.getByRole("button", { name: "Save" }).click();
  await page.locator(".outcome.bad-text").filter({ hasText: /./ }).waitFor();
  await page.getByRole("textbox", { name: "The agent's own" }).fill("the tests need a database");
  await looked(page, "memory");
  await page.getByRole("button", { name: "Save" }).click();
  await page.locator("li.prose", { hasText: "the tests need a database" }).waitFor();

  // A server that does not answer is not added unasked.
  await page.goto(`${BASE}/mcp`);
  await page.getByRole("button", { name: "Add a server" }).click();
  await page.getByRole("textbox", { name: "Name", exact: true }).fill("wiki");
  await page.getByLabel("Program and arguments").fill("/no/such/program");
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByText("does not answer, so it was not added").waitFor();
  await looked(page, "mcp-form");
  await page.getByLabel("add it without trying it").check();
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.locator("li", { hasText: "/no/such/program" }).getByRole("button", { name: "Remove" }).waitFor();
  await looked(page, "mcp");
  await page.goto(`${BASE}/models`);
  await page.getByRole("heading", { name: "In use" }).waitFor();
  await looked(page, "models");

  assert.deepEqual(complaints, []);
} finally {
  await browser.close();
  await rm(profile, { recursive: true, force: true });
  // Otherwise this process would wait for more of it.
  input.close();
  process.stdin.destroy();
}
