// Two identity providers, made with the npm package oidc-provider, for TestRealIdentityProvider. The first puts what it knows about a
// person into the userinfo endpoint alone, as the package does unless told otherwise; the second into the ID token too.
//
// What it says begins with "> ", because the package has things to say too. It prints the issuers as a line of JSON, reads the
// clients of each as another, and prints a third when it is ready. Each further line is the person who signs in from then on, or
// null, for whom it refuses. It ends with its input.
import http from 'node:http'
import readline from 'node:readline'
import { generateKeyPairSync } from 'node:crypto'

import Provider from 'oidc-provider'

const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const read = async () => JSON.parse((await lines.next()).value ?? 'false')
const write = (value) => process.stdout.write('> ' + JSON.stringify(value) + '\n')

const handlers = []
const issuers = []
for (const place of [0, 1]) {
  const server = http.createServer((request, response) => handlers[place](request, response))
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  issuers.push(`http://127.0.0.1:${server.address().port}`)
}
write(issuers)

let person = null
const keys = [['RS256', 'rsa', { modulusLength: 2048 }], ['ES256', 'ec', { namedCurve: 'P-256' }], ['EdDSA', 'ed25519', {}]].map(
  ([alg, kind, options]) => ({ ...generateKeyPairSync(kind, options).privateKey.export({ format: 'jwk' }), alg, use: 'sig' }),
)

const clients = await read()
for (const place of [0, 1]) {
  const provider = new Provider(issuers[place], {
    clients: clients[place],
    jwks: { keys },
    cookies: { keys: ['of a test'] },
    conformIdTokenClaims: place === 0,
    claims: { openid: ['sub'], email: ['email', 'email_verified'], groups: ['groups'] },
    enabledJWA: { idTokenSigningAlgValues: ['RS256', 'PS256', 'ES256', 'EdDSA', 'HS256'] },
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ ...person, sub: id }) }),
    interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
    features: { devInteractions: { enabled: false } },
    pkce: { required: () => true },
  })
  provider.use(async (ctx, next) => {
    if (!ctx.path.startsWith('/interaction/')) return next()
    const { params } = await provider.interactionDetails(ctx.req, ctx.res)
    if (person === null) {
      return provider.interactionFinished(ctx.req, ctx.res, { error: 'access_denied' })
    }
    const grant = new provider.Grant({ accountId: person.sub, clientId: params.client_id })
    grant.addOIDCScope(params.scope)
    const result = { login: { accountId: person.sub, remember: false }, consent: { grantId: await grant.save() } }
    return provider.interactionFinished(ctx.req, ctx.res, result)
  })
  handlers[place] = provider.callback()
}
write('ready')

for (;;) {
  person = await read()
  if (person === false) process.exit()
  write('changed')
}
