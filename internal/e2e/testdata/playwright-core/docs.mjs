// Drives a browser through the reference page: docs.mjs reads one line of JSON from its input, {chromium, base, key, folder,
// operations, telephone}, and writes what it has seen as one line that begins with "> ". Screenshots are written to the
// folder, if one is named.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const lines = createInterface({ input: process.stdin });
const { value: line } = await lines[Symbol.asyncIterator]().next();
const task = JSON.parse(line);
const profile = await mkdtemp(join(tmpdir(), "sallyport-docs-"));
const seen = { elsewhere: [], messages: [], operations: {} };

const context = await chromium.launchPersistentContext(profile, {
  executablePath: task.chromium,
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  viewport: task.telephone ? { width: 390, height: 844 } : { width: 1280, height: 900 },
  timeout: 60_000,
});
context.setDefaultTimeout(60_000);

const shoot = async (page, name) => {
  if (task.folder) {
    await page.screenshot({ path: join(task.folder, name + ".png") });
  }
};

const watch = (page) => {
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (url.origin !== task.base && url.protocol !== "data:" && url.protocol !== "blob:") {
      seen.elsewhere.push(request.url());
    }
  });
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") {
      seen.messages.push(message.text());
    }
  });
  page.on("pageerror", (error) => seen.messages.push(String(error)));
};

const open = async (hash = "") => {
  const page = await context.newPage();
  watch(page);
  await page.goto(task.base + "/docs" + hash);
  await page.getByRole("heading", { name: "Sallyport", exact: true }).first().waitFor();
  return page;
};

const keyField = (within) => within.getByPlaceholder("QUxMIFlPVVIgQkFTRSBBUkUgQkVMT05HIFRPIFVT").filter({ visible: true }).first();

// place returns where a credential is kept.
const place = (page, key) =>
  page.evaluate((text) => {
    // The page has replaced localStorage for its viewer; a new frame of the same origin has the real one.
    const frame = document.body.appendChild(document.createElement("iframe"));
    const real = frame.contentWindow;
    const holds = (storage) => Object.values({ ...storage }).some((value) => value.includes(text));
    const found = { tab: holds(real.sessionStorage), browser: holds(real.localStorage) };
    frame.remove();
    return found;
  }, key);

// useDesk searches, keeps credentials and sends requests.
const useDesk = async () => {
  // The page as it comes.
  let page = await open();
  seen.groups = (await page.locator('[id^="sallyport/tag/"] h2, aside a, nav a').allInnerTexts()).map((t) => t.trim());
  await shoot(page, "start");

  // Search.
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Enter search query" }).fill("replay");
  const found = page.getByRole("listbox", { name: "Reference Search Results" }).getByRole("option");
  await found.first().waitFor();
  seen.search = (await found.allInnerTexts()).map((text) => text.replaceAll(/\s+/g, " ").trim());
  await shoot(page, "search");
  await page.keyboard.press("Escape");

  // A credential, kept in this tab.
  await keyField(page).fill(task.key);
  await page.waitForFunction((text) => Object.values({ ...sessionStorage }).some((v) => v.includes(text)), task.key);
  seen.kept = { first: await place(page, task.key) };
  await page.reload();
  seen.kept.afterReload = await keyField(page).inputValue();
  const stranger = await open();
  seen.kept.otherTabBefore = await keyField(stranger).inputValue();
  await stranger.close();
  await page.getByLabel("Where credentials are kept").selectOption("browser");
  seen.kept.browser = await place(page, task.key);
  const other = await open();
  seen.kept.otherTabAfter = await keyField(other).inputValue();
  await other.getByLabel("Where credentials are kept").selectOption("tab");
  seen.kept.tabAgain = await place(other, task.key);
  await page.close();
  page = other;

  // Requests, as they are prefilled. The ids of what the user has replace those of the examples.
  for (const { id, method, path, hash, example } of task.operations) {
    await page.evaluate((text) => (location.hash = text), hash);
    const section = page.locator(`[id="sallyport/${hash}"]`);
    await section.waitFor();
    if (example) {
      await page.waitForFunction(
        ([name, text]) => document.getElementById(name)?.textContent.includes(text) === false,
        ["sallyport/" + hash, example],
      );
    }
    await section.getByRole("button", { name: /Test Request/ }).first().click();
    const form = new RegExp("^/api/v1" + path.replaceAll(/\{\w+\}/g, "[^/]+") + "$");
    const response = page.waitForResponse(
      (r) => r.request().method() === method && form.test(new URL(r.url()).pathname) && !/[?]limit=(1|50)$/.test(r.url()),
    );
    const dialog = page.getByRole("dialog").filter({ visible: true });
    await dialog.getByRole("button", { name: /^Send/ }).first().click();
    const received = await response;
    seen.operations[id] = { status: received.status(), url: received.url(), body: await received.text() };
    await dialog.getByText(String(received.status())).first().waitFor();
    await shoot(page, id);
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "hidden" });
  }

  await Promise.all([page.waitForEvent("load"), page.getByRole("button", { name: "Forget" }).click()]);
  seen.kept.forgotten = await place(page, task.key);
};

// readOnTelephone looks at each operation on a narrow page.
const readOnTelephone = async () => {
  const page = await open();
  seen.widths = {};
  for (const { id, hash } of task.operations) {
    await page.evaluate((text) => (location.hash = text), hash);
    await page.locator(`[id="sallyport/${hash}"]`).waitFor();
    seen.widths[id] = await page.evaluate(() => document.documentElement.scrollWidth);
    await shoot(page, "narrow-" + id);
  }
};

try {
  await (task.telephone ? readOnTelephone() : useDesk());
} catch (error) {
  seen.error = String(error.stack);
} finally {
  await context.close();
  await rm(profile, { recursive: true, force: true });
}
console.log("> " + JSON.stringify(seen));
process.exit();
