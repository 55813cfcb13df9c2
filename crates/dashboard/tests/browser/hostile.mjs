// Every page of a home in which every word is hostile: nothing runs, nothing leads away, nothing looks like
// something else. The link and the pages of single things come on standard input.
import assert from "node:assert/strict";
import { BASE, everyPage, heard, login, settled, SIZES, story } from "./driver.mjs";

const link = await heard();
const singles = JSON.parse(await heard());
const complaints = [];
// In an address, too: what is shown of it is text.
const ODD = [
  "/board/%3Cimg%20src%3Dx%20onerror%3Dwindow.owned%3D1%3E",
  "/board/default/%22%3E%3Cscript%3Ewindow.owned%3D1%3C%2Fscript%3E",
  "/sandboxes/default/%3Cscript%3Ewindow.owned%3D1%3C%2Fscript%3E",
  "/conversations/default/%3Csvg%20onload%3Dwindow.owned%3D1%3E",
  "/sandboxes/default/none/jobs/%3Cimg%20src%3Dx%3E",
  "/sandboxes/%3Cb%3E/none/files?path=%3Cimg%20src%3Dx%3E",
  "/board/default/%3Cb%3Ex/review",
  "/schedules/default/%3Cb%3Ex",
  "/skills/%3Cimg%20src%3Dx%3E",
  "/usage?days=%3Cimg%20src%3Dx%3E",
  "/conversations?q=%3Cimg%20src%3Dx%20onerror%3Dwindow.owned%3D1%3E",
  "/logs?text=%3Cimg%20src%3Dx%20onerror%3Dwindow.owned%3D1%3E",
  "/settings?text=%3Cimg%20src%3Dx%20onerror%3Dwindow.owned%3D1%3E",
  "/board?profile=%3Cimg%20src%3Dx%20onerror%3Dwindow.owned%3D1%3E",
];

/** Whatever a page has that it should not have. */
function found() {
  const bad = [];
  if (window.owned) bad.push("a script has run");
  const markup = "img, iframe, object, embed, base, meta[http-equiv], form[action], math, portal, applet, video, audio, link[rel=import]";
  for (const one of document.querySelectorAll(`#app :is(${markup}), #app script, #app style`)) {
    if (one.localName === "img" && new URL(one.src).origin === location.origin) continue;
    bad.push(`an element: ${one.outerHTML.slice(0, 200)}`);
  }
  for (const one of document.querySelectorAll("#app *")) {
    for (const { name, value } of one.attributes) {
      if (name.startsWith("on") || name === "srcdoc") bad.push(`an attribute: ${name}=${value}`);
    }
  }
  for (const one of document.querySelectorAll("#app a[href]")) {
    if (!["http:", "https:", "blob:"].includes(one.protocol)) bad.push(`a link: ${one.getAttribute("href")}`);
    const leads = one.origin !== location.origin && one.protocol !== "blob:";
    if (leads && !(one.target === "_blank" && one.rel.includes("noopener"))) bad.push(`a link that opens here: ${one.href}`);
  }
  const unseen = document.body.innerText.match(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/);
  if (unseen) bad.push(`a character that is not seen: ${unseen[0].codePointAt(0).toString(16)}`);
  if (!document.title.endsWith(" · Vestal")) bad.push(`a title: ${document.title}`);
  const tooWide = document.documentElement.scrollWidth - innerWidth;
  if (tooWide > 0) bad.push(`it is ${tooWide} px too wide`);
  return bad;
}

await story(async (browser) => {
  // What is not there is an answer.
  const { page } = await login(browser, link, complaints, (text) => /status of (400|404|409|503)/.test(text));
  const wrong = [];
  for (const path of [...(await everyPage(page)), ...singles, ...ODD]) {
    await page.goto(BASE + path);
    await settled(page).catch(() => wrong.push(`${path}: it has no heading, or never ends to load`));
    // Everything that folds is looked into.
    await page.evaluate(() => document.querySelectorAll("#app details").forEach((one) => (one.open = true)));
    assert.equal(new URL(page.url()).origin, BASE, path);
    for (const size of Object.values(SIZES)) {
      await page.setViewportSize(size);
      wrong.push(...(await page.evaluate(found)).map((what) => `${path} at ${size.width}: ${what}`));
    }
  }
  assert.deepEqual(wrong, []);

  // It was there to be seen.
  await page.goto(`${BASE}/board`);
  await page.getByText("onerror=window.owned").first().waitFor();
  await page.goto(`${BASE}/logs`);
  await page.getByText("onerror=window.owned").first().waitFor();
  await page.goto(`${BASE}/`);
  await page.locator("li.needed", { hasText: "May it do this?" }).getByText("onerror=window.owned").first().waitFor();
  await page.goto(`${BASE}/sandboxes`);
  await page.locator("li.operation").getByText("onerror=window.owned").first().waitFor();
  assert.deepEqual(complaints, []);
});
