// Creates, lists and reads statistics through the generated types.

import assert from "node:assert/strict";
import process from "node:process";
import createClient from "openapi-fetch";
import type { paths } from "./schema.js";

const [url, key] = process.argv.slice(2);
const client = createClient<paths>({
  baseUrl: url,
  headers: { Authorization: `Bearer ${key}` },
});

const made = await client.POST("/api/v1/urls", {
  body: {
    long_url: "https://example.com/typescript",
    custom_alias: "from-typescript",
    tags: ["client"],
    domain: null,
  },
});
assert.equal(made.response.status, 201, JSON.stringify(made.error));
const code: string = made.data!.short_code;
assert.equal(code, "from-typescript");

// A domain is a text: which domains there are is no part of the generated types.
const domain: string = made.data!.domain;
const named = await client.POST("/api/v1/urls", {
  body: { long_url: "https://example.com/named", tags: ["named"], domain },
});
assert.equal(named.data!.domain, domain);

const listed = await client.GET("/api/v1/urls", {
  params: { query: { tag: "client", limit: 10, status: "active", domain } },
});
assert.deepEqual(listed.data!.links.map((link) => link.short_code), [code]);

const stats = await client.GET("/api/v1/urls/{code}/stats", {
  params: { path: { code }, query: { bots: "exclude", interval: "day" } },
});
const clicks: number = stats.data!.total_clicks;
assert.equal(clicks, 0);

const refused = await client.POST("/api/v1/urls", { body: { long_url: "ftp://example.com/" } });
assert.equal(refused.error!.code, "scheme_not_allowed");
