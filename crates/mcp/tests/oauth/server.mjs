// An MCP server made with the official SDK for TypeScript, which takes requests with a token only and
// says where tokens come from.
import { createRequire } from "node:module";
import { join } from "node:path";

const require = createRequire(join(process.env.PACKAGES, "node_modules", "x"));
const from = (name) => import(require.resolve(name));
const { McpServer } = await from("@modelcontextprotocol/sdk/server/mcp.js");
const { StreamableHTTPServerTransport } = await from("@modelcontextprotocol/sdk/server/streamableHttp.js");
const { requireBearerAuth } = await from("@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js");
const { InvalidTokenError } = await from("@modelcontextprotocol/sdk/server/auth/errors.js");
const sdk = createRequire(require.resolve("@modelcontextprotocol/sdk/server/mcp.js"));
const express = sdk("express");

// The address is known before the authorization server is: it needs it.
const app = express();
app.use(express.json());
const listening = await new Promise((ready) => {
  const server = app.listen(0, "127.0.0.1", () => ready(server));
});
const base = `http://127.0.0.1:${listening.address().port}`;
console.log(`${base}/mcp`);

const issuer = await new Promise((known) => {
  process.stdin.once("data", (line) => known(String(line).trim()));
});
process.stdin.on("end", () => process.exit(0));

app.get(["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"], (request, response) => {
  response.json({ resource: `${base}/mcp`, authorization_servers: [issuer], scopes_supported: ["read"] });
});

const verifier = {
  async verifyAccessToken(token) {
    const answer = await fetch(`${issuer}/token/introspection`, {
      method: "POST",
      headers: {
        "content-type": "application/x-www-form-urlencoded",
        authorization: `Basic ${Buffer.from("resource:of-the-resource").toString("base64")}`,
      },
      body: new URLSearchParams({ token }),
    });
    const about = await answer.json();
    if (!about.active) throw new InvalidTokenError("not active");
    return { token, clientId: about.client_id, scopes: about.scope?.split(" ") ?? [], expiresAt: about.exp, extra: { sub: about.sub } };
  },
};
const bearer = requireBearerAuth({ verifier, resourceMetadataUrl: `${base}/.well-known/oauth-protected-resource/mcp` });

app.all("/mcp", bearer, async (request, response) => {
  const server = new McpServer({ name: "guarded", version: "1" });
  server.registerTool("whoami", { description: "Says who asks." }, async (extra) => ({
    content: [{ type: "text", text: `you are ${extra.authInfo?.extra?.sub}` }],
  }));
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
  response.on("close", () => {
    transport.close();
    server.close();
  });
  await server.connect(transport);
  await transport.handleRequest(request, response, request.body);
});
