// Shopify as its npm package @shopify/shopify-api knows it, for TestShopifysLibrary.
//
// What it says begins with "> ". It prints true when it is ready. Each further line of JSON that it reads is a webhook to sign,
// {sign: {body, topic, id}}, for which it prints the headers that Shopify sends, or one to validate, {validate: {body, headers}}, for
// which it prints the result of the package's validation. It ends with its input.
import readline from 'node:readline'

import '@shopify/shopify-api/adapters/web-api'
import { ApiVersion, LogSeverity, shopifyApi } from '@shopify/shopify-api'
import { createSHA256HMAC, HashFormat } from '@shopify/shopify-api/runtime'

const secret = process.argv[2]
const shopify = shopifyApi({
  apiKey: 'key',
  apiSecretKey: secret,
  hostName: 'app.example.test',
  apiVersion: Object.values(ApiVersion).at(-1),
  isEmbeddedApp: false,
  logger: { level: LogSeverity.Error },
})
const write = (value) => process.stdout.write('> ' + JSON.stringify(value) + '\n')

write(true)
for await (const line of readline.createInterface({ input: process.stdin })) {
  const { sign, validate } = JSON.parse(line)
  if (sign) {
    write({
      'Content-Type': 'application/json',
      'X-Shopify-Topic': sign.topic,
      'X-Shopify-Hmac-Sha256': await createSHA256HMAC(secret, sign.body, HashFormat.Base64),
      'X-Shopify-Shop-Domain': 'acme.myshopify.com',
      'X-Shopify-Api-Version': '2025-10',
      'X-Shopify-Webhook-Id': sign.id,
    })
  } else {
    const rawRequest = new Request('https://app.example.test/', { method: 'POST', headers: validate.headers })
    write(await shopify.webhooks.validate({ rawBody: validate.body, rawRequest }))
  }
}
