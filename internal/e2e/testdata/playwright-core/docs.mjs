// Drives a browser through the reference page: docs.mjs reads one line of JSON from its input, {chromium, base, key, folder,
// search, keep, operations, others, telephone}, and writes what it has seen as one line that begins with "> ". It looks at the
// page as it comes and searches if search is set, keeps credentials if keep is "tab" or "browser", else it sends the operations,
// and opens the forms of the others. Screenshots are written to the folder, if one is named.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const lines = createInterface({ input: process.stdin });
const { value: line } = await lines[Symbol.asyncIterator]().next();
const task = JSON.parse(line);
const profile = await mkdtemp(join(tmpdir(), "sallyport-docs-"));
const seen = { elsewhere: [], messages: [], operations: {}, others: {} };

const context = await chromium.launchPersistentContext(profile, {
  executablePath: task.chromium,
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  ...(task.telephone
    ? { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true }
    : { viewport: { width: 1280, height: 900 } }),
  timeout: 60_000,
});
context.setDefaultTimeout(60_000);

const shoot = async (page, name) => {
  if (task.folder) {
    // Dialogs and sections appear little by little.
    await page.evaluate(() =>
      Promise.allSettled(
        document
          .getAnimations()
          .filter((a) => a.effect.getComputedTiming().endTime !== Infinity)
          .map((a) => a.finished),
      ),
    );
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

const keyField = (within) => within.getByPlaceholder("spk_live_…").filter({ visible: true }).first();

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

const client = (page) => page.getByRole("dialog").filter({ visible: true });

// show goes to an operation.
const show = async (page, { hash }) => {
  await page.evaluate((text) => (location.hash = text), hash);
  const section = page.locator(`[id="sallyport/${hash}"]`);
  await section.waitFor();
  return section;
};

// replaced waits until the id of what the user has is in the path of the operation's sample, in place of the example.
const replaced = async (page, { hash, path, example }) => {
  if (example) {
    await page.waitForFunction(
      ([name, text]) => document.getElementById(name)?.textContent.includes(text) === false,
      ["sallyport/" + hash, path.replace(/\{\w+\}/, example)],
    );
  }
};

// openForm opens the form of an operation, and returns its button to send. A click while the page shows the operations again,
// with the ids of what the user has, opens nothing: as a person would, it clicks again.
const openForm = async (page, section) => {
  const button = client(page).getByRole("button", { name: /^Send/ }).filter({ visible: true }).first();
  for (let attempts = 1; ; attempts++) {
    await section.getByRole("button", { name: /Test Request/ }).first().click();
    try {
      await button.waitFor({ timeout: 10_000 });
      return button;
    } catch (error) {
      if (attempts === 3) {
        throw error;
      }
    }
  }
};

// send opens the form of an operation, sends the request, and returns what has been received, with the place of Send.
const send = async (page, section, { method, path }) => {
  const button = await openForm(page, section);
  const form = new RegExp("^/api/v1" + path.replaceAll(/\{\w+\}/g, "[^/]+") + "$");
  const response = page.waitForResponse(
    (r) => r.request().method() === method && form.test(new URL(r.url()).pathname) && !/[?]limit=(1|50)$/.test(r.url()),
  );
  response.catch(() => {}); // what fails before it is reported
  const dialog = client(page);
  const box = await button.boundingBox();
  await (task.telephone ? button.tap() : button.click());
  const received = await response;
  await dialog.getByText(String(received.status())).first().waitFor();
  return { status: received.status(), url: received.url(), body: await received.text(), send: box };
};

// hold gives the page the credential.
const hold = async (page) => {
  await keyField(page).fill(task.key);
  await page.waitForFunction((text) => Object.values({ ...sessionStorage }).some((v) => v.includes(text)), task.key);
};

// close closes the form of an operation.
const close = async (page) => {
  await page.keyboard.press("Escape");
  await client(page).waitFor({ state: "hidden" });
};

// search looks at the page as it comes, and searches.
const search = async () => {
  const page = await open();
  await shoot(page, "start");

  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Enter search query" }).fill("replay");
  const found = page.getByRole("listbox", { name: "Reference Search Results" }).getByRole("option");
  await found.first().waitFor();
  seen.search = (await found.allInnerTexts()).map((text) => text.replaceAll(/\s+/g, " ").trim());
  await shoot(page, "search");
};

// keepInTab keeps a credential where it is kept at first.
const keepInTab = async () => {
  const page = await open();
  await hold(page);
  seen.kept = { first: await place(page, task.key) };
  await page.reload();
  seen.kept.afterReload = await keyField(page).inputValue();
  const stranger = await open();
  seen.kept.otherTabBefore = await keyField(stranger).inputValue();
  await stranger.close();
};

// keepInBrowser keeps a credential for all tabs, takes that back, and forgets it.
const keepInBrowser = async () => {
  const page = await open();
  await hold(page);
  seen.kept = {};
  await page.getByLabel("Where credentials are kept").selectOption("browser");
  seen.kept.browser = await place(page, task.key);
  const other = await open();
  seen.kept.otherTabAfter = await keyField(other).inputValue();
  await other.getByLabel("Where credentials are kept").selectOption("tab");
  seen.kept.tabAgain = await place(other, task.key);
  await page.close();
  await Promise.all([other.waitForEvent("load"), other.getByRole("button", { name: "Forget" }).click()]);
  seen.kept.forgotten = await place(other, task.key);
};

// useDesk sends requests, as they are prefilled: the ids of what the user has replace those of the examples. It then opens
// the forms of operations that change or delete something.
const useDesk = async () => {
  const page = await open();
  await hold(page);
  for (const operation of task.operations) {
    const section = await show(page, operation);
    await replaced(page, operation);
    seen.operations[operation.id] = await send(page, section, operation);
    await shoot(page, operation.id);
    await close(page);
  }
  for (const operation of task.others) {
    const section = await show(page, operation);
    const sample = await section.textContent();
    await openForm(page, section);
    seen.others[operation.id] = { sample, form: await client(page).textContent() };
    await shoot(page, operation.id);
    await close(page);
  }
};

// readOnTelephone looks at all operations on a narrow page, and sends the requests of those that are to be sent.
const readOnTelephone = async () => {
  const page = await open();
  await hold(page);
  seen.widths = {};
  for (const operation of [...task.others, ...task.operations]) {
    const section = await show(page, operation);
    // What is cut off does not make the page wider, so the places of what can be pressed count.
    seen.widths[operation.id] = await section.evaluate((element) =>
      Math.max(
        document.documentElement.scrollWidth,
        ...[...element.querySelectorAll("button")]
          .filter((b) => b.checkVisibility({ opacityProperty: true, visibilityProperty: true }))
          .filter((b) => {
            let parent = b.parentElement;
            while (parent !== element && !/auto|scroll/.test(getComputedStyle(parent).overflowX)) {
              parent = parent.parentElement;
            }
            return parent === element; // the others can be scrolled to
          })
          .map((b) => b.getBoundingClientRect().right),
      ),
    );
    await shoot(page, "narrow-" + operation.id);
    if (!task.operations.includes(operation)) {
      continue;
    }
    await replaced(page, operation);
    seen.operations[operation.id] = await send(page, section, operation);
    await shoot(page, "narrow-" + operation.id + "-sent");
    await client(page).getByRole("button", { name: /Close/ }).filter({ visible: true }).first().tap();
    await client(page).waitFor({ state: "hidden" });
  }
};

try {
  await (task.search ? search() : task.keep === "tab" ? keepInTab() : task.keep === "browser" ? keepInBrowser() : task.telephone ? readOnTelephone() : useDesk());
} catch (error) {
  seen.error = String(error.stack);
} finally {
  await context.close();
  await rm(profile, { recursive: true, force: true });
}
console.log("> " + JSON.stringify(seen));
process.exit();
