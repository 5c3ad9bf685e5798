// A provider whose accounts are connected, made with the npm package oidc-provider, for TestConnectionOfARealProvider. It replaces the
// refresh token with each use. If one that was used comes again, it ends the grant and all its tokens (RFC 9700, section 4.14.2).
//
// What it says begins with "> ", because the package has things to say too. It prints its issuer as a line of JSON, reads its only
// client as another, and prints a third when it is ready. Then it responds to each line: {"person": …} is who signs in from then on,
// or null, for whom it refuses; {"state": true} prints what has happened; {"replay": true} sends the refresh token that was used last
// again, as a thief would. It ends with its input.
import http from 'node:http'
import readline from 'node:readline'
import { generateKeyPairSync } from 'node:crypto'

import Provider from 'oidc-provider'

const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const read = async () => JSON.parse((await lines.next()).value ?? 'false')
const write = (value) => process.stdout.write('> ' + JSON.stringify(value) + '\n')

let handler
const server = http.createServer((request, response) => handler(request, response))
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
const issuer = `http://127.0.0.1:${server.address().port}`
write(issuer)

const client = await read()
let person = null
const provider = new Provider(issuer, {
  clients: [client],
  jwks: { keys: [{ ...generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' }), alg: 'RS256', use: 'sig' }] },
  cookies: { keys: ['of a test'] },
  claims: { openid: ['sub'], email: ['email'] },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, email: `${id}@example.test` }) }),
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
  features: { devInteractions: { enabled: false }, revocation: { enabled: true } },
  pkce: { required: () => true },
  rotateRefreshToken: true,
  ttl: { AccessToken: 3600, RefreshToken: 86400, Grant: 86400, Session: 86400, Interaction: 600 },
})
provider.use(async (ctx, next) => {
  if (!ctx.path.startsWith('/interaction/')) return next()
  const { params } = await provider.interactionDetails(ctx.req, ctx.res)
  if (person === null) {
    return provider.interactionFinished(ctx.req, ctx.res, { error: 'access_denied', error_description: 'The person said no' })
  }
  const grant = new provider.Grant({ accountId: person, clientId: params.client_id })
  grant.addOIDCScope(params.scope)
  const result = { login: { accountId: person, remember: false }, consent: { grantId: await grant.save() } }
  return provider.interactionFinished(ctx.req, ctx.res, result)
})

const state = { codes: 0, refreshes: 0, revocations: 0, errors: [] }
const accessTokens = []
const usedTokens = []
provider.on('grant.success', (ctx) => {
  state[ctx.oidc.params.grant_type === 'refresh_token' ? 'refreshes' : 'codes']++
})
provider.on('grant.error', (_, error) => state.errors.push(error.error_detail ?? error.message))
provider.on('revocation.error', (_, error) => state.errors.push(error.error_detail ?? error.message))
provider.on('grant.revoked', () => state.revocations++)
provider.on('access_token.saved', (token) => accessTokens.push(token.jti))
provider.on('refresh_token.consumed', (token) => usedTokens.push(token.jti))
handler = provider.callback()
write('ready')

for (;;) {
  const line = await read()
  if (line === false) process.exit()
  if ('person' in line) {
    person = line.person
    write('changed')
  } else if (line.replay) {
    const response = await fetch(`${issuer}/token`, {
      method: 'POST',
      body: new URLSearchParams({
        grant_type: 'refresh_token',
        refresh_token: usedTokens.at(-1),
        client_id: client.client_id,
        client_secret: client.client_secret,
      }),
    })
    write(response.status)
  } else {
    const found = await Promise.all(accessTokens.map((token) => provider.AccessToken.find(token)))
    write({ ...state, valid: found.filter((token) => token?.isValid).length })
  }
}
