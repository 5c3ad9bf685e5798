// The verifying half of OAuth's assertions and of OAuth 1.0a's signatures, for TestOAuthPeers: JWTs with the npm package jose, and
// signatures with the npm package oauth-1.0a.
//
// It reads lines of JSON and prints one line, which begins with "> ", for each. {jwt: {token, algorithm, key, at, options}} is a token
// to verify with a key in PEM, or a secret for HS256, for which it prints the protected header and the claims, or the error's code.
// {oauth1: {request: {method, url, data}, consumer, token, algorithm, nonce, timestamp}} is a request to sign, for which it prints the
// signature. It ends with its input.
import { createHmac } from 'node:crypto'
import readline from 'node:readline'

import { importSPKI, jwtVerify } from 'jose'
import OAuth from 'oauth-1.0a'

async function verify({ token, algorithm, key, at, options }) {
  const secret = algorithm === 'HS256' ? new TextEncoder().encode(key) : await importSPKI(key, algorithm)
  try {
    const { protectedHeader, payload } = await jwtVerify(token, secret, {
      ...options,
      algorithms: [algorithm],
      currentDate: new Date(at * 1000),
    })
    return { header: protectedHeader, claims: payload }
  } catch (error) {
    return { error: error.code }
  }
}

function sign({ request, consumer, token, algorithm, nonce, timestamp }) {
  const oauth = new OAuth({
    consumer,
    signature_method: 'HMAC-' + algorithm.toUpperCase(),
    hash_function: (base, key) => createHmac(algorithm, key).update(base).digest('base64'),
  })
  oauth.getNonce = () => nonce
  oauth.getTimeStamp = () => timestamp
  return oauth.authorize(request, token).oauth_signature
}

for await (const line of readline.createInterface({ input: process.stdin })) {
  const { jwt, oauth1 } = JSON.parse(line)
  process.stdout.write('> ' + JSON.stringify(jwt ? await verify(jwt) : sign(oauth1)) + '\n')
}
