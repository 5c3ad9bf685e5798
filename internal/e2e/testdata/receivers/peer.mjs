// Receivers of raw webhooks, for TestRealReceivers: GitHub's own, which the npm package @octokit/webhooks makes, with the secret of
// the connection and with another one; one of CloudEvents with the npm package cloudevents; and an app for Slack, which Slack's
// npm package @slack/bolt makes, with a listener of each kind.
//
// Each line begins with "> ". The first holds the address, and CloudEvents to send as requests, with the events themselves. Each
// further one is what a receiver was given. The process ends with its input.
import http from 'node:http'

import bolt from '@slack/bolt'
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

const { App, HTTPModuleFunctions, verifySlackRequest } = bolt
const slackApp = new App({
  authorize: async () => ({ botId: 'B1', botUserId: 'U1' }),
  receiver: { init() {}, async start() {}, async stop() {} },
  logLevel: 'error',
})
let listener
const listen = (kind, name) => async ({ payload, ack }) => {
  listener = `${kind} ${name(payload)}`
  await ack?.()
}
slackApp.event(/./, listen('event', (event) => event.type))
slackApp.action(/./, listen('action', (action) => action.action_id))
slackApp.action({ type: 'interactive_message', callback_id: /./ }, listen('message', (action) => action.name))
slackApp.action({ type: 'dialog_submission', callback_id: /./ }, listen('dialog', (dialog) => dialog.callback_id))
slackApp.options(/./, listen('options', (request) => request.action_id))
slackApp.options({ type: 'dialog_suggestion', callback_id: /./ }, listen('options', (request) => request.callback_id))
slackApp.view(/./, listen('view', (view) => view.callback_id))
slackApp.view({ type: 'view_closed', callback_id: /./ }, listen('view closed', (view) => view.callback_id))
slackApp.shortcut(/./, listen('shortcut', (shortcut) => shortcut.callback_id))
slackApp.command(/./, listen('command', (command) => command.command))

const readSlack = async (request, response) => {
  const chunks = []
  for await (const chunk of request) chunks.push(chunk)
  request.rawBody = Buffer.concat(chunks)
  const body = request.rawBody.toString()
  const { headers } = request
  let verified = true
  listener = ''
  try {
    // The test has a clock of its own, which the gateway's header shows.
    const nowMilliseconds = Number(headers['webhook-timestamp']) * 1000
    verifySlackRequest({ signingSecret: 'a secret shared with Slack', body, headers, nowMilliseconds })
    const ack = async () => {}
    await slackApp.processEvent({ body: HTTPModuleFunctions.parseHTTPRequestBody(request), ack })
  } catch (error) {
    verified = false
    listener = String(error)
  }
  write({ receiver: '/slack', verified, listener, event: body })
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
