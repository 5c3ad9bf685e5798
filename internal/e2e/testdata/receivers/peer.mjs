// Receivers of raw webhooks, for TestRealReceivers: GitHub's own, which the npm package @octokit/webhooks makes, with the secret of
// the connection and with another one; one of CloudEvents with the npm package cloudevents; and one that verifies Slack's signature
// by the steps of https://docs.slack.dev/authentication/verifying-requests-from-slack.
//
// Each line begins with "> ". The first holds the address, and CloudEvents to send as requests, with the events themselves. Each
// further one is what a receiver was given. The process ends with its input.
import { createHmac, timingSafeEqual } from 'node:crypto'
import http from 'node:http'

import { Webhooks, createNodeMiddleware } from '@octokit/webhooks'
import { CloudEvent, HTTP } from 'cloudevents'

const write = (value) => process.stdout.write('> ' + JSON.stringify(value) + '\n')
const silent = { debug() {}, info() {}, warn() {}, error() {} }

const github = (path, secret) => {
  const webhooks = new Webhooks({ secret, log: silent })
  webhooks.onAny(({ id, name, payload }) => write({ receiver: path, id, type: name, event: payload }))
  return createNodeMiddleware(webhooks, { path, log: silent })
}
const middlewares = [github('/github', 'a secret shared with GitHub'), github('/stranger', 'another secret')]

const slackSecret = 'a secret shared with Slack'
const readSlack = async (request, response) => {
  const chunks = []
  for await (const chunk of request) chunks.push(chunk)
  const body = Buffer.concat(chunks).toString()
  const timestamp = request.headers['x-slack-request-timestamp']
  const mine = Buffer.from('v0=' + createHmac('sha256', slackSecret).update(`v0:${timestamp}:${body}`).digest('hex'))
  const theirs = Buffer.from(request.headers['x-slack-signature'] ?? '')
  // The test has a clock of its own, which the gateway's header shows.
  const recent = Math.abs(Number(request.headers['webhook-timestamp']) - Number(timestamp)) <= 300
  const verified = recent && mine.length === theirs.length && timingSafeEqual(mine, theirs)
  write({ receiver: '/slack', verified, event: body })
  response.writeHead(verified ? 200 : 401).end()
}

const readEvent = (request, response) => {
  const chunks = []
  request.on('data', (chunk) => chunks.push(chunk))
  request.on('end', () => {
    try {
      const event = HTTP.toEvent({ headers: request.headers, body: Buffer.concat(chunks).toString() })
      event.validate()
      write({ receiver: '/cloudevents', id: event.id, type: event.type, event, authorization: request.headers.authorization })
      response.writeHead(204).end()
    } catch (error) {
      response.writeHead(400).end(String(error))
    }
  })
}

const server = http.createServer(async (request, response) => {
  if (request.url === '/cloudevents') return readEvent(request, response)
  if (request.url === '/slack') return readSlack(request, response)
  for (const middleware of middlewares) if (await middleware(request, response)) return
  response.writeHead(404).end()
})
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))

const made = new CloudEvent({
  id: 'A234-1234-1234',
  source: '/mycontext/subcontext',
  type: 'com.example.someevent',
  time: '2018-04-05T17:31:00.000Z',
  subject: 'larger context',
  dataschema: 'https://example.com/schema',
  datacontenttype: 'application/json',
  traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
  comexampleextension: 'value',
  data: { appinfoA: 'abc', appinfoB: 123, appinfoC: true },
})
const structured = made.cloneWith({ id: 'B234-1234-1234' })
write({
  url: `http://127.0.0.1:${server.address().port}`,
  sent: [
    { event: made, ...HTTP.binary(made) },
    { event: structured, ...HTTP.structured(structured) },
  ],
})

process.stdin.on('end', () => process.exit()).resume()
