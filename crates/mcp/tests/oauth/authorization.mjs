// An authorization server: oidc-provider, with dynamic registration, PKCE, refresh tokens and resource
// indicators. Who comes is logged in as `ann` without being asked; `deny` in DENY refuses.
import { createRequire } from "node:module";
import { join } from "node:path";
import { createServer } from "node:http";

const require = createRequire(join(process.env.PACKAGES, "node_modules", "x"));
const { default: Provider } = await import(require.resolve("oidc-provider"));
const RESOURCE = process.env.RESOURCE;

const server = createServer();
await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
const issuer = `http://127.0.0.1:${server.address().port}`;

const provider = new Provider(issuer, {
  features: {
    devInteractions: { enabled: false },
    registration: { enabled: true },
    introspection: { enabled: true, allowedPolicy: () => true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => RESOURCE,
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({ scope: "read", audience: RESOURCE, accessTokenFormat: "opaque" }),
    },
  },
  clients: [
    { client_id: "resource", client_secret: "of-the-resource", grant_types: [], redirect_uris: [], response_types: [] },
  ],
  scopes: ["openid", "read"],
  ttl: { AccessToken: Number(process.env.LIFETIME ?? 3600), RefreshToken: 86400 },
  rotateRefreshToken: true,
  issueRefreshToken: async (ctx, client) => client.grantTypeAllowed("refresh_token"),
  pkce: { required: () => true },
  findAccount: (ctx, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  interactions: { url: (ctx, interaction) => `/interaction/${interaction.uid}` },
  cookies: { keys: ["of the tests"] },
});

const counts = { registrations: 0, refreshes: 0 };
provider.on("registration_create.success", () => (counts.registrations += 1));
provider.on("grant.success", (ctx) => (counts.refreshes += ctx.oidc.params.grant_type === "refresh_token" ? 1 : 0));

provider.use(async (ctx, next) => {
  if (ctx.path === "/counts") {
    ctx.body = counts;
    return;
  }
  if (!ctx.path.startsWith("/interaction/")) return next();
  const details = await provider.interactionDetails(ctx.req, ctx.res);
  if (process.env.DENY) {
    const refused = { error: "access_denied", error_description: "not today" };
    await provider.interactionFinished(ctx.req, ctx.res, refused, { mergeWithLastSubmission: false });
    ctx.respond = false;
    return;
  }
  const result = { login: { accountId: "ann" } };
  if (details.prompt.name === "consent") {
    const grant = new provider.Grant({ accountId: "ann", clientId: details.params.client_id });
    grant.addOIDCScope("openid read");
    grant.addResourceScope(RESOURCE, "read");
    result.consent = { grantId: await grant.save() };
  }
  await provider.interactionFinished(ctx.req, ctx.res, result, { mergeWithLastSubmission: true });
  ctx.respond = false;
});

server.on("request", provider.callback());
console.log(issuer);
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
