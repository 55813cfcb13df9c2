// A certified provider of OpenID Connect on loopback, with pages of its own to log in at. It prints its
// issuer, and then serves the one dashboard whose address comes on standard input.
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

// What it says about being set up for development is not news.
console.info = console.warn = () => {};
const { Provider } = await import(pathToFileURL(join(process.env.PACKAGES, "node_modules/oidc-provider/lib/index.js")).href);

let handle = (_request, response) => response.writeHead(503).end();
const server = createServer((request, response) => handle(request, response));
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}`));

const input = createInterface({ input: process.stdin });
for await (const base of input) {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: "vestal",
        client_secret: process.env.CLIENT_SECRET,
        token_endpoint_auth_method: "client_secret_basic",
        redirect_uris: [`${base}/login/callback`],
        grant_types: ["authorization_code"],
        response_types: ["code"],
      },
    ],
    pkce: { required: () => true },
    cookies: { keys: ["of a test"] },
    claims: { openid: ["sub"], email: ["email", "email_verified"] },
    findAccount: (_context, id) => ({
      accountId: id,
      claims: () => ({ sub: id, email: `${id}@example.org`, email_verified: !id.startsWith("claims-") }),
    }),
  });
  handle = provider.callback();
  console.log("ready");
}
server.closeAllConnections();
server.close();
