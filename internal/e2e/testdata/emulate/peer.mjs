// GitHub, Slack, Google, Microsoft, Linear and Twilio, emulated by the npm package emulate, for TestEmulatedProviders and
// TestEmulatedKeys.
//
// It reads the seeds of the services as a line of JSON, {service: seed}, and prints a line that begins with "> ": the URL of each, and
// the secrets that were generated. It ends with its input.
import readline from 'node:readline'

import { createEmulator } from 'emulate'

const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const seeds = JSON.parse((await lines.next()).value)
const out = {}
for (const [service, seed] of Object.entries(seeds)) {
  const emulator = await createEmulator({ service, port: 0, hostname: '127.0.0.1', seed: { [service]: seed } })
  // It names itself localhost, which is not the address that a test allows.
  out[service] = { url: emulator.url.replace('localhost', '127.0.0.1'), secrets: emulator.generatedSecrets }
}
process.stdout.write('> ' + JSON.stringify(out) + '\n')
await lines.next()
process.exit()
