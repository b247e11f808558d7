// A certified OpenID Connect provider that knows one client. Ends when its standard input does.
import { createServer } from 'node:http';
import Provider from 'oidc-provider';

const [callback, id, secret] = process.argv.slice(2);
const server = createServer();
server.listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const client = {
    client_id: id, client_secret: secret, redirect_uris: [callback],
    grant_types: ['authorization_code'], response_types: ['code'],
  };
  const provider = new Provider(issuer, {
    clients: [client],
    claims: { openid: ['sub'], profile: ['preferred_username'], email: ['email'] },
    conformIdTokenClaims: false,
    findAccount: (_, sub) => ({ accountId: sub, claims: () => ({ sub, preferred_username: sub, email: `${sub}@example.com` }) }),
    pkce: { required: () => true },
  });
  server.on('request', provider.callback());
  console.log(`issuer ${issuer}`);
});
process.stdin.on('end', () => process.exit(0)).resume();
