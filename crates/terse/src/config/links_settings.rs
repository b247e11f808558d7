//! Settings of links: codes, redirects, caches, clicks.

use std::path::PathBuf;

use super::node::{choice, settings};
use super::values::{BusUrl, ByteSize, CacheUrl, HumanDuration, ObjectUrl, Secret, StoreUrl};

settings! {
    /// `[codes]`: generated codes.
    pub struct CodesConfig {
        /// How terse generates codes. `numbered`: unique by construction, looks random. `random`:
        /// tries until a code is free. `hash`: the same target of the same owner gets the same
        /// code. `snowflake`: time, machine and a counter; longer codes.
        pub strategy: CodeStrategy = CodeStrategy::Numbered,
        /// The length of generated codes, 4 to 10. When all codes of a length are used, terse
        /// continues with the next length.
        pub length: u8 = 7,
        /// The characters of generated codes. `base58` leaves out `0`, `O`, `I` and `l`. Fixed when
        /// the store is created.
        pub alphabet: CodeAlphabet = CodeAlphabet::Base62,
        /// How many numbers terse leases from the store at once, 1 to 100000. A crash wastes the
        /// rest of a lease.
        pub lease: u32 = 1000,
        /// The number of this machine, for `snowflake`. It must differ on every machine.
        pub machine: u8 = 0,
        /// Whether terse ignores upper and lower case in an alias if there is no exact match.
        pub loose: bool = false,
    }
}

choice! {
    /// How codes are generated.
    pub enum CodeStrategy ("`numbered`, `random`, `hash`, `snowflake`") {
        /// Leased numbers through a keyed bijection.
        Numbered = "numbered",
        /// Random, again on conflict.
        Random = "random",
        /// From target and owner, with the store's secret.
        Hash = "hash",
        /// Time, node number, sequence.
        Snowflake = "snowflake",
    }
}

choice! {
    /// The characters of generated codes.
    pub enum CodeAlphabet ("`base62`, `base58`") {
        /// Digits and both cases.
        Base62 = "base62",
        /// The same without look-alikes.
        Base58 = "base58",
    }
}

settings! {
    /// `[cache]`: links in memory.
    pub struct CacheConfig {
        /// The most memory that cached links may use; at least `1MiB`. If not set, an eighth of
        /// `memory.budget`.
        pub size: Option<ByteSize> = None,
        /// How long a cached link is used before terse reads it from the store again; `1s` to `1d`.
        pub ttl: HumanDuration = HumanDuration::secs(300),
        /// How long terse remembers that a code does not exist; at most `60s`.
        pub negative_ttl: HumanDuration = HumanDuration::secs(30),
        /// How many codes that do not exist terse remembers.
        pub negative_entries: u32 = 65_536,
        /// A Redis server that all nodes share. It keeps copies of links, announces changes and
        /// counts rate limits. `redis://host`, `rediss://user:password@host:6379/0`,
        /// `redis+cluster://a,b,c` or `redis+sentinel://a,b,c/master`. Only with a store that
        /// several nodes share.
        pub url: Option<CacheUrl> = None,
        /// Whether a new link is written to `cache.url` when it is created.
        pub write_through: bool = false,
    }
}

settings! {
    /// `[redirect]`: redirects.
    pub struct RedirectConfig {
        /// The number of threads that serve redirects; 0 is one per core.
        pub threads: u16 = 0,
        /// How terse answers a visit that fails. `status`: with its status and a page. `page`: with
        /// a redirect to `/r/{code}?error=…`.
        pub errors: ErrorAnswers = ErrorAnswers::Status,
        /// How long browsers may cache a 301 or 308, `0s` to `365d`. A cached redirect cannot be
        /// revoked.
        pub permanent_max_age: HumanDuration = HumanDuration::days(1),
        /// After how long without a change terse answers a link with 301 instead of 302; `0s`
        /// never. Links with an expiry, a click limit, rules, a password, a forwarded query or a
        /// flag keep
        /// 302. Browsers cache a 301, so terse counts fewer clicks.
        pub permanent_after: HumanDuration = HumanDuration::secs(0),
        /// The longest time a visitor waits for the store; `1ms` to `60s`.
        pub store_timeout: HumanDuration = HumanDuration::ms(500),
        /// How long terse serves links from memory past `cache.ttl` while the store is away; `0s`
        /// to `7d`. Then they answer 503: they may have been changed or blocked.
        pub max_stale: HumanDuration = HumanDuration::secs(3600),
        /// The most concurrent lookups in the store.
        pub store_concurrency: u32 = 256,
        /// The longest time a client may take to send the head of a request; `1s` to `5m`.
        pub header_timeout: HumanDuration = HumanDuration::secs(10),
        /// The longest time a connection may be idle between requests; `1s` to `1h`.
        pub idle_timeout: HumanDuration = HumanDuration::secs(75),
        /// The most open connections. The limit of open files must allow as many. When they are
        /// all in use, terse closes the connections that have been idle longest.
        pub max_connections: u32 = 20_000,
        /// The most open connections from one address of IPv4 or /64 of IPv6; `0` is an eighth of
        /// `max_connections`. Trusted proxies may have more.
        pub max_connections_per_ip: u32 = 0,
    }
}

choice! {
    /// How a failed visit is answered.
    pub enum ErrorAnswers ("`status`, `page`") {
        /// With its status.
        Status = "status",
        /// With a redirect to a page.
        Page = "page",
    }
}

settings! {
    /// `[clicks]`: click statistics.
    pub struct ClicksConfig {
        /// Whether terse counts clicks. Existing statistics stay.
        pub enabled: bool = true,
        /// The store of clicks, in the form of `store`. Without it, clicks are in the PostgreSQL
        /// database of `store` or `registry` if there is one, else in `file:clicks.db`. With a file
        /// beside a database, every node has statistics of its own visits only. `clickhouse://…` is
        /// a ClickHouse database; it needs a `store` or `registry` on PostgreSQL, which decides
        /// which clicks count.
        pub store: Option<StoreUrl> = None,
        /// Kafka between the journals of many nodes and `clicks.store`:
        /// `kafka://a,b,c/topic`. Nodes publish their clicks there, and nodes with the role
        /// `worker` count them. Needs a `clicks.store` that nodes share; see [Kafka](kafka.md).
        pub bus: Option<BusUrl> = None,
        /// The most disk space for clicks that are not counted yet, at least `16MiB`, beside what
        /// is being written. If it is full while `clicks.store` accepts nothing, terse drops the
        /// oldest clicks. While the store is only slow, up to four times as much may wait; from
        /// twice as much on, visitors wait for the store.
        pub journal_size: ByteSize = ByteSize::mib(1024),
        /// How long clicks may be in memory before terse stores them together, at most `1m`.
        /// Statistics include them, unless nodes share the store of clicks. A crash loses none: the
        /// journal keeps them until then.
        pub flush: HumanDuration = HumanDuration::secs(5),
        /// How long terse keeps single clicks; `0s` keeps sums only.
        pub keep_raw: HumanDuration = HumanDuration::days(90),
        /// The most disk space for single clicks. Past it terse deletes the oldest, some ten
        /// thousand at a time; their sums stay. Without it, only `clicks.keep_raw` counts.
        pub max_raw: Option<ByteSize> = None,
        /// Where terse keeps copies of single clicks in Parquet files, one or more per hour:
        /// `s3://bucket/prefix` (see `s3.*`) or `file:///folder`; see archive.md.
        pub archive: Option<ObjectUrl> = None,
        /// How long terse keeps files in `clicks.archive`, at least `1d`. Without it, forever.
        pub archive_keep: Option<HumanDuration> = None,
        /// How long terse keeps sums per hour, at least `2d`; older sums are per day.
        pub keep_hours: HumanDuration = HumanDuration::days(30),
        /// How much of a visitor's IP address terse stores: `cut` the first 24 bits of IPv4 and 48
        /// of IPv6, `none` only its country, `full` the whole address.
        pub address: ClickAddresses = ClickAddresses::Cut,
        /// Whether terse stores nothing but the count for visitors who ask not to be tracked
        /// (`DNT`, `Sec-GPC`).
        pub honour_dnt: bool = true,
        /// A geo database in MaxMind's format, instead of the built-in countries. terse reads it
        /// again when it changes.
        pub geo_database: Option<PathBuf> = None,
    }
}

choice! {
    /// How much of a visitor's address is stored.
    pub enum ClickAddresses ("`cut`, `none`, `full`") {
        /// Its beginning.
        Cut = "cut",
        /// Nothing.
        Nothing = "none",
        /// All of it.
        Full = "full",
    }
}

settings! {
    /// `[anonymous]`: links created without an account.
    pub struct AnonymousConfig {
        /// Whether links can be created without an API key.
        pub create: bool = true,
        /// How long after its creation a link without an owner expires; at least `1s`.
        pub ttl: HumanDuration = HumanDuration::secs(8 * 3600),
    }
}

settings! {
    /// `[cdn]`: a content delivery network in front of terse; see cdn.md.
    pub struct CdnConfig {
        /// Whether edges of a CDN may keep redirects. Visits that an edge answers reach terse only
        /// through the CDN's log (`terse import-clicks`).
        pub enabled: bool = false,
        /// How long edges keep a redirect; `1s` to `1d`. After a change of a link, terse purges it.
        pub ttl: HumanDuration = HumanDuration::secs(300),
        /// Which CDN is purged. Needed with `cdn.enabled`.
        pub purge: CdnProvider = CdnProvider::Nothing,
        /// For `varnish`: the URLs of all Varnish servers, such as `http://10.0.0.7:6081`. For the
        /// others: one URL instead of the API's own, for a proxy.
        pub url: Vec<String> = vec![],
        /// The id of Fastly's service, Cloudflare's zone or CloudFront's distribution.
        pub service: Option<String> = None,
        /// For `cloudfront`: the id of the access key.
        pub key_id: Option<String> = None,
        /// The API token of Fastly or Cloudflare, the secret access key of AWS, or what the VCL of
        /// Varnish expects as `Terse-Purge-Token`.
        pub token: Option<Secret> = None,
    }
}

choice! {
    /// The content delivery networks that terse can purge.
    pub enum CdnProvider ("`none`, `varnish`, `fastly`, `cloudflare`, `cloudfront`") {
        /// None.
        Nothing = "none",
        /// Varnish with the module xkey.
        Varnish = "varnish",
        /// Fastly.
        Fastly = "fastly",
        /// Cloudflare.
        Cloudflare = "cloudflare",
        /// Amazon CloudFront.
        CloudFront = "cloudfront",
    }
}

settings! {
    /// `[links]`: aliases, and deleted and expired links.
    pub struct LinksConfig {
        /// How long terse keeps a deleted link, which can be restored until then, and an expired
        /// link without an owner.
        pub grace: HumanDuration = HumanDuration::days(7),
        /// How long terse keeps an expired link of an owner, with its statistics; at least `grace`.
        pub keep_expired: HumanDuration = HumanDuration::days(365),
        /// How long an alias stays reserved for its former owner after its link was removed for
        /// good. `0s` turns this off. The codes of blocked links stay reserved forever.
        pub quarantine: HumanDuration = HumanDuration::days(365),
        /// A file of aliases that terse refuses to every account: one per line, in upper or lower
        /// case, with comments after `#`; at most 1 MiB. terse reads it at the start. Existing
        /// links stay.
        pub unwanted_aliases: Option<PathBuf> = None,
        /// How often terse marks expired links and deletes old ones; `1s` to `1d`.
        pub reap_every: HumanDuration = HumanDuration::secs(15 * 60),
        /// How many links terse deletes in one write, 1 to 100000.
        pub reap_batch: u32 = 1000,
        /// The largest share of all links that terse deletes for good at once, in percent. Beyond
        /// it terse deletes nothing and waits for `terse doctor --confirm`. Up to 100 links are
        /// never too many. `100` turns this off.
        pub max_purge_percent: u8 = 25,
    }
}
