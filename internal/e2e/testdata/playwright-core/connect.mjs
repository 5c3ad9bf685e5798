// Drives a browser without JavaScript through the page on which a person connects an account: connect.mjs reads one line of JSON from
// its input, {chromium, base, folder, telephone, dark, steps}, and writes what it has seen as one line that begins with "> ".
// A step is {name, open, fill, choose, press, heading}: a URL to open, values by the label of their field, options by the label of
// theirs, the name of a button or link to press, and the heading that the page has then. Of each page it reports the title, the
// text, the address, the width, how far anything reaches over the card, and the height of what was pressed. Screenshots are written to
// the folder, if one is named.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { chromium } from 'playwright-core'

const lines = createInterface({ input: process.stdin })
const { value: line } = await lines[Symbol.asyncIterator]().next()
const task = JSON.parse(line)
const profile = await mkdtemp(join(tmpdir(), 'sallyport-connect-'))
const seen = { messages: [], pages: {} }
let context
try {
  context = await chromium.launchPersistentContext(profile, {
    executablePath: task.chromium,
    args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
      '--disable-component-update', '--disable-sync'],
    javaScriptEnabled: false,
    colorScheme: task.dark ? 'dark' : 'light',
    ...(task.telephone ? { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true } : { viewport: { width: 1280, height: 900 } }),
    timeout: 60_000,
  })
  context.setDefaultTimeout(60_000)
  const page = await context.newPage()
  page.on('console', (message) => {
    // Chromium reports each status code of an error as an error of the page.
    if (['error', 'warning'].includes(message.type()) && !message.text().startsWith('Failed to load resource: the server responded')) {
      seen.messages.push(message.text())
    }
  })
  page.on('pageerror', (error) => seen.messages.push(String(error)))
  for (const step of task.steps) {
    if (step.open) await page.goto(step.open)
    for (const [label, value] of Object.entries(step.fill ?? {})) await page.getByLabel(label).fill(value)
    for (const [label, value] of Object.entries(step.choose ?? {})) await page.getByLabel(label).selectOption(value)
    let pressed = 0
    if (step.press) {
      const target = page.getByRole('button', { name: step.press }).or(page.getByRole('link', { name: step.press })).first()
      pressed = (await target.boundingBox())?.height ?? 0
      await target.click()
    }
    await page.getByRole('heading', { name: step.heading }).first().waitFor()
    seen.pages[step.name] = {
      title: await page.title(),
      text: await page.locator('main').innerText(),
      url: page.url(),
      width: await page.evaluate(() => document.documentElement.scrollWidth),
      spill: await page.evaluate(() => {
        const card = document.querySelector('.card')
        if (!card) return 0
        const right = (element) => Math.max(...[...element.getClientRects()].map((box) => box.right), 0)
        return Math.max(...[...card.querySelectorAll('*')].map(right)) - right(card)
      }),
      pressed,
    }
    if (task.folder) await page.screenshot({ path: join(task.folder, `connect-${task.telephone ? 'telephone' : 'screen'}-${step.name}.png`) })
  }
} catch (error) {
  seen.error = String(error)
} finally {
  await context?.close()
  await rm(profile, { recursive: true, force: true })
}
process.stdout.write('> ' + JSON.stringify(seen) + '\n')
process.exit()
